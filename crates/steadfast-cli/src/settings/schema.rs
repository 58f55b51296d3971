//! The configuration as a JSON Schema (draft 2020-12), for editors and other tools.
//!
//! Decides how the shapes of settings are said in a schema. A schema sees one value at a time: what
//! contradicts another setting, and what only the machine knows (a file, a variable), is left to
//! `config check`. Settings that are not acted on are not in it, and so are refused.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::MOST_ROUTES;
use super::about::{About, Shape, acted, built_in};
use super::level::{DEFAULTS, ROUTE};
use super::names::Level;
use super::top::LONGEST_PATH;

const LENGTH: &str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
const SIZE: &str = "^([0-9]+GiB)?([0-9]+GB)?([0-9]+MiB)?([0-9]+MB)?([0-9]+KiB)?([0-9]+kB)?\
                    ([0-9]+B)?$";
const ADDRESS: &str = "^([0-9.]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$";
const STORE: &str = "^(memory:|sqlite:(///|/)?[^:?/]([^?]*[^?/])?|postgres(ql)?://[^@]*@?[^@]*)$";
const NETWORK: &str = "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$";
const FIELD: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";
const METHOD: &str = "^[!#$%&'*+.^_`|~0-9A-Z-]+$";
const PRINCIPAL: &str = "^(authorization|anonymous|(header|cookie):.+)$";
const POINTER: &str = "^(/([^~/]|~[01])*)+$";

/// The schema.
pub fn json() -> Value {
    let values = built_in();
    let top = properties(&values, |level| level == Level::Top);
    let shared = properties(&values, |level| level == Level::Shared);
    let route = properties(&values, |level| level != Level::Top);
    let mut route = object(route);
    route["required"] = json!(["path", "to"]);
    let mut defaults = object(shared);
    defaults["description"] = json!("every route starts from these");
    let mut schema = object(top);
    schema["properties"][DEFAULTS] = defaults;
    schema["properties"][ROUTE] = json!({
        "description": "tried in their order; the first whose path and method fit wins",
        "type": "array", "minItems": 1, "maxItems": MOST_ROUTES, "items": route,
    });
    schema["required"] = json!([ROUTE]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Configuration of steadfast");
    schema["$defs"] = json!({
        "length": {
            "description": "with its unit: ms, s, m, h or d, such as 30s or 1m30s",
            "type": "string", "minLength": 1, "pattern": LENGTH,
        },
        "positive_length": {
            "description": "above zero, with its unit: ms, s, m, h or d",
            "allOf": [{ "$ref": "#/$defs/length" }, { "pattern": "[1-9]" }],
        },
        "size": {
            "description": "with its unit: B, kB, KiB, MB, MiB, GB or GiB",
            "type": "string", "allOf": [{ "pattern": SIZE }, { "pattern": "[1-9]" }],
        },
        "secret": secret(),
    });
    schema
}

fn object(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// The settings of some levels; those with a dot in their name in tables of their own.
fn properties(
    values: &BTreeMap<&'static str, Value>,
    here: impl Fn(Level) -> bool,
) -> Map<String, Value> {
    let mut found = Map::new();
    for (_, about) in acted().filter(|(setting, _)| here(setting.level)) {
        let property = property(about, values.get(about.name));
        match about.name.split_once('.') {
            None => {
                found.insert(about.name.to_owned(), property);
            }
            Some((table, name)) => {
                let table = found.entry(table).or_insert_with(|| object(Map::new()));
                table["properties"][name] = property;
            }
        }
    }
    found
}

fn property(about: &About, built_in: Option<&Value>) -> Value {
    let mut property = shape(about.shape);
    property["description"] = json!(about.about);
    if let Some(value) = built_in {
        property["default"] = value.clone();
    }
    property
}

fn shape(shape: Shape) -> Value {
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let list = |items: Value| json!({ "type": "array", "items": items });
    match shape {
        Shape::Address => text(ADDRESS),
        Shape::Store => text(STORE),
        Shape::Length => json!({ "$ref": "#/$defs/length" }),
        Shape::PositiveLength => json!({ "$ref": "#/$defs/positive_length" }),
        Shape::Size => json!({ "$ref": "#/$defs/size" }),
        Shape::Whole(least, most) => whole(least, most),
        // As text too, as a variable of the environment has it.
        Shape::Switch => json!({ "enum": [true, false, "true", "false"] }),
        Shape::Words(words) => json!({ "enum": words }),
        Shape::Text(most) => json!({ "type": "string", "minLength": 1, "maxLength": most }),
        Shape::File => json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_PATH }),
        Shape::Path => text("^/"),
        Shape::Upstream => text("^https?://[^/?#@\\s]+/?$"),
        Shape::Field => text(FIELD),
        Shape::Principal => text(PRINCIPAL),
        Shape::Methods | Shape::AnyMethods => {
            let mut method = text(METHOD);
            method["not"] = json!({ "const": "CONNECT" });
            let mut methods = list(method);
            if shape == Shape::Methods {
                methods["minItems"] = json!(1);
            }
            methods
        }
        Shape::WordList(words) => list(json!({ "enum": words })),
        Shape::Share(true) => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        // Exact to a millionth: what is nearer to nothing is nothing.
        Shape::Share(false) => json!({ "type": "number", "minimum": 0.000_001, "maximum": 1 }),
        Shape::Networks => list(text(NETWORK)),
        Shape::Statuses(least) => list(whole(least, 599)),
        Shape::Pointers => {
            let mut pointers = list(text(POINTER));
            pointers["maxItems"] = json!(32);
            pointers
        }
        Shape::Range(most) => {
            let mut range = list(whole(1, most));
            range["minItems"] = json!(2);
            range["maxItems"] = json!(2);
            range
        }
        Shape::Secret => json!({ "$ref": "#/$defs/secret" }),
    }
}

fn whole(least: u32, most: u32) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn secret() -> Value {
    let place = |name: &str, about: &str| {
        json!({
            "type": "object", "additionalProperties": false, "required": [name],
            "properties": { name: { "type": "string", "minLength": 1, "description": about } },
        })
    };
    json!({
        "description": "where the secret is, never the text itself",
        "oneOf": [
            place("env", "the name of an environment variable"),
            place("file", "the path of a file"),
        ],
    })
}
