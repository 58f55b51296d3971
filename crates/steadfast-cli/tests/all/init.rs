//! `config init` and `config schema`: both speak of exactly the settings that are acted on, and of
//! the values that hold without any.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Folder, Ran, finish};
use crate::tidy::root;

fn printed(folder: &Folder) -> String {
    let ran = folder.run(&["config", "init"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    ran.out
}

fn schema(folder: &Folder) -> Value {
    folder.json(&["config", "schema"])
}

/// `#name = value` becomes a setting.
fn set(line: &str) -> &str {
    match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
        _ => line,
    }
}

/// The values that hold under a configuration, without where they came from.
fn shown(folder: &Folder, text: &str) -> Value {
    folder.write("s.toml", text);
    let shown = folder.json(&["config", "show", "--config", "s.toml", "--json"]);
    let values = |level: &Value| -> Value {
        let level = level.as_object().expect("settings");
        level
            .iter()
            .map(|(n, s)| (n.clone(), s["value"].clone()))
            .collect()
    };
    let routes = shown["routes"].as_array().expect("routes");
    json!([
        values(&shown["settings"]),
        routes.iter().map(values).collect::<Vec<_>>()
    ])
}

/// Paths of all properties of an object schema, those of tables in it included.
fn paths(schema: &Value, prefix: &str, found: &mut Vec<(String, Value)>) {
    for (name, property) in schema["properties"].as_object().expect("properties") {
        let path = format!("{prefix}{name}");
        match property["properties"].is_object() {
            true => paths(property, &format!("{path}."), found),
            false => found.push((path, property.clone())),
        }
    }
}

/// Every setting of the schema, by the table in which it stands.
fn settings(schema: &Value) -> [Vec<(String, Value)>; 3] {
    let (mut top, mut defaults, mut route) = (Vec::new(), Vec::new(), Vec::new());
    paths(schema, "", &mut top);
    top.retain(|(path, _)| path != "route" && !path.starts_with("defaults."));
    paths(&schema["properties"]["defaults"], "", &mut defaults);
    paths(&schema["properties"]["route"]["items"], "", &mut route);
    [top, defaults, route]
}

const ROUTE: &str = "[[route]]\npath = \"/{*rest}\"\nto = \"http://127.0.0.1:3000\"\n";

#[test]
fn the_printed_configuration_can_be_run_and_means_what_no_configuration_means() {
    let folder = Folder::new();
    let text = printed(&folder);
    assert_eq!(shown(&folder, &text), shown(&folder, ROUTE));
    let checked = folder.run(&["config", "check", "--config", "s.toml"]);
    assert_eq!(
        (checked.code, checked.out.as_str()),
        (0, "s.toml: ok, 1 route\n")
    );
}

#[test]
fn every_setting_that_is_acted_on_is_printed_with_a_comment_and_its_built_in_value() {
    let folder = Folder::new();
    let text = printed(&folder);
    let [top, defaults, route] = settings(&schema(&folder));
    let own = route
        .iter()
        .filter(|(path, _)| !defaults.iter().any(|(own, _)| own == path));
    let all: Vec<&(String, Value)> = top.iter().chain(&defaults).chain(own).collect();
    assert!(all.len() > 40, "{}", all.len());
    for (path, property) in &all {
        let head = format!("{path} = ");
        let lines: Vec<&str> = text
            .lines()
            .map(set)
            .filter(|l| l.starts_with(&head))
            .collect();
        assert_eq!(lines.len(), 1, "{path} stands once in\n{text}");
        assert!(lines[0].contains("  # "), "{} has no comment", lines[0]);
        let value = lines[0][head.len()..]
            .split("  # ")
            .next()
            .expect("a value")
            .trim();
        if let Some(default) = property.get("default") {
            let value: Value = serde_json::from_str(value).expect("a value of JSON, too");
            assert_eq!(value, *default, "{path}");
        }
    }
    let settings = text
        .lines()
        .map(set)
        .filter(|line| line.contains(" = ") && !line.starts_with('#'));
    assert_eq!(settings.count(), all.len(), "and nothing else is a setting");
}

#[test]
fn with_every_comment_taken_off_the_printed_configuration_still_means_the_same() {
    let folder = Folder::new();
    let with_default: BTreeSet<String> = settings(&schema(&folder))
        .into_iter()
        .flatten()
        .filter(|(_, property)| property.get("default").is_some())
        .map(|(path, _)| path)
        .collect();
    let text = printed(&folder);
    let line = |line| {
        let taken_off = set(line);
        let name = taken_off.split(" = ").next().unwrap_or_default();
        if with_default.contains(name) {
            taken_off
        } else {
            line
        }
    };
    let text: Vec<&str> = text.lines().map(line).collect();
    assert_eq!(shown(&folder, &text.join("\n")), shown(&folder, ROUTE));
}

#[test]
fn a_file_that_is_there_is_left_alone_unless_it_is_forced() {
    let folder = Folder::new();
    folder.write("s.toml", "mine");
    let refused = folder.run(&["config", "init", "-o", "s.toml"]);
    let err = "error: s.toml is there already and was left as it is; name another file, or add \
               --force to replace it\n";
    assert_eq!((refused.code, refused.err.as_str()), (1, err));
    assert_eq!(folder.read("s.toml"), b"mine");
    let forced = folder.run(&["config", "init", "-o", "s.toml", "--force"]);
    assert_eq!((forced.code, forced.out.as_str()), (0, ""));
    assert_eq!(folder.read("s.toml"), printed(&folder).into_bytes());
    let elsewhere = folder.run(&["config", "init", "-o", "none/s.toml"]);
    let begins = "error: none/s.toml cannot be written: ";
    assert!(
        elsewhere.code == 1 && elsewhere.err.starts_with(begins),
        "{elsewhere:?}"
    );
    assert_eq!(folder.run(&["config", "init", "--force"]).code, 2);
    let told = folder.json(&["config", "init", "--json"]);
    assert_eq!(told, json!({ "file": null, "config": printed(&folder) }));
}

/// The first Python that has the validator, looked for as `./test` does: the first one in PATH may
/// be another than the one that the distribution's modules are for.
fn python() -> &'static str {
    let has = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", "import jsonschema, tomllib"]);
        finish(command).code == 0
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has);
    found.expect("a python3 from 3.11 on with jsonschema (Debian: python3-jsonschema)")
}

/// Validates TOML files, read by another parser than ours: `valid` or `wrong` for each.
fn validated(folder: &Folder, files: &[&str]) -> Vec<String> {
    const VALIDATE: &str = "\
import json, sys, tomllib
from jsonschema import Draft202012Validator
schema = json.load(open('schema.json'))
Draft202012Validator.check_schema(schema)
for name in sys.argv[1:]:
    errors = list(Draft202012Validator(schema).iter_errors(tomllib.load(open(name, 'rb'))))
    print('valid' if not errors else 'wrong')
";
    folder.write("schema.json", schema(folder).to_string());
    let mut command = Command::new(python());
    command.current_dir(folder.path(""));
    command.args(["-c", VALIDATE]).args(files);
    let Ran { code, out, err } = finish(command);
    assert_eq!(code, 0, "{err}");
    out.lines().map(str::to_owned).collect()
}

/// Lines of a route, and whether they can be run.
const LINES: &[(&str, bool)] = &[
    ("deadline = \"1m30s\"", true),
    ("deadline = \"90\"", false),
    ("deadline = 90", false),
    ("deadline = \"0s\"", false),
    ("deadline = \"30s1m\"", false),
    ("deadline = \"\"", false),
    ("margin = \"0ms\"", true),
    ("body_limit = \"1MiB512KiB\"", true),
    ("body_limit = \"1mb\"", false),
    ("body_limit = \"0B\"", false),
    (
        "idempotency = { mode = \"required\", on_unknown = \"repeat\" }",
        true,
    ),
    ("idempotency.mode = \"perhaps\"", false),
    ("idempotency.on_unknown = \"lookup\"", false),
    ("idempotency.leasse = \"30s\"", false),
    ("idempotency.key_length = [16]", false),
    ("idempotency.key_length = [16, 2000]", false),
    ("idempotency.min_entropy_bits = 257", false),
    ("idempotency.final = [409, 422]", true),
    ("idempotency.final = [99]", false),
    ("idempotency.fingerprint_ignore = [\"/sent_at\"]", true),
    ("idempotency.fingerprint_ignore = [\"sent_at\"]", false),
    ("idempotency.header = \"a b\"", false),
    ("methods = []", false),
    ("methods = [\"post\"]", false),
    ("methods = [\"CONNECT\"]", false),
    ("pool.max_per_host = 0", false),
    ("principal = \"cookie:session\"", true),
    ("principal = \"jwt:sub\"", false),
    ("require = \"durable\"", true),
    ("require = \"linearizable\"", false),
    (
        "retry = { max_attempts = 5, on_error = [\"connect\"], methods = [] }",
        true,
    ),
    ("retry.max_attempts = 0", false),
    ("retry.on_error = [\"tls\"]", false),
    ("retry.on_status = [99]", false),
    ("budget.ratio = 0", true),
    ("budget.ratio = 1.01", false),
    ("breaker.failure_ratio = 0.0", false),
    ("breaker.failure_ratio = 1", true),
    ("breaker.probes = 0", false),
    ("honor_attempts = true", true),
    ("max_in_flight = 3", false),
    ("name = \"\"", false),
    ("listen = \"127.0.0.1:80\"", false),
];

/// Lines of the top level, and whether they can be run.
const TOP: &[(&str, bool)] = &[
    ("listen = \"[::1]:80\"", true),
    ("listen = \"localhost:80\"", false),
    ("store = \"memory:\"", true),
    ("store = \"sqlite:///var/lib/s.db\"", true),
    ("store = \"sqlite://host/s.db\"", false),
    ("store = \"sqlite:\"", false),
    ("store = \"postgres://u@h/d?sslmode=require\"", true),
    ("store = \"postgres://u@v@h/d\"", false),
    ("store = \"redis://h\"", false),
    ("trusted_peers = [\"10.0.0.0/8\", \"::1\"]", true),
    ("trusted_peers = [\"lb\"]", false),
    ("admin_token = { file = \"token\" }", true),
    ("admin_token = \"0123456789abcdef\"", false),
    ("admin_token = { env = \"A\", file = \"token\" }", false),
    ("route = []", false),
    ("workers = 4", false),
];

#[test]
fn the_schema_takes_what_can_be_run_and_refuses_what_cannot() {
    let folder = Folder::new();
    folder.write("token", "0123456789abcdef0123456789abcdef");
    let example = std::fs::read_to_string(root().join("examples/steadfast.toml"));
    let mut texts = vec![
        (example.expect("the example"), true),
        (printed(&folder), true),
        (String::new(), false),
        ("[[route]]\npath = \"/\"".to_owned(), false),
        (
            "[[route]]\npath = \"/\"\nto = \"ftp://h\"".to_owned(),
            false,
        ),
        (
            "[[route]]\npath = \"x\"\nto = \"http://h\"".to_owned(),
            false,
        ),
    ];
    texts.extend(
        LINES
            .iter()
            .map(|(line, sound)| (format!("{ROUTE}{line}\n"), *sound)),
    );
    let route = |line: &str| if line.starts_with("route") { "" } else { ROUTE };
    texts.extend(
        TOP.iter()
            .map(|(line, sound)| (format!("{line}\n{}", route(line)), *sound)),
    );
    let mut names = Vec::new();
    for (index, (text, _)) in texts.iter().enumerate() {
        names.push(format!("{index}.toml"));
        folder.write(&names[index], text);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let verdicts = validated(&folder, &names);
    assert_eq!(verdicts.len(), texts.len());
    for ((text, sound), verdict) in texts.iter().zip(verdicts) {
        assert_eq!(
            verdict == "valid",
            *sound,
            "the schema says {verdict} of\n{text}"
        );
        folder.write("s.toml", text);
        let checked = folder.run(&["config", "check", "--config", "s.toml"]);
        assert_eq!(checked.code == 0, *sound, "{}\nof\n{text}", checked.err);
    }
}

#[test]
fn every_object_of_the_schema_refuses_names_that_it_does_not_know() {
    fn walk(value: &Value, place: &str) {
        match value {
            Value::Object(members) => {
                if members.contains_key("properties") && members.contains_key("type") {
                    assert_eq!(members["additionalProperties"], json!(false), "{place}");
                }
                members
                    .iter()
                    .for_each(|(name, value)| walk(value, &format!("{place}/{name}")));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, place)),
            _ => {}
        }
    }
    let schema = schema(&Folder::new());
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    walk(&schema, "");
    for (path, property) in settings(&schema).into_iter().flatten() {
        assert!(
            property["description"].is_string(),
            "{path} has no description"
        );
    }
}
