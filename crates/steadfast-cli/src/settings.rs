//! What was configured, as values that cannot be wrong.
//!
//! Decides whether a configuration can be run at all, and names everything that is wrong with it at
//! once: place, setting, reason, next step. It reads the file, the environment and the flags, in
//! this order of growing weight; nothing behind it reads or checks a setting again. Source:
//! docs/reference.md, "Configuration".

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub mod about;
pub mod address;
mod document;
pub mod environment;
pub mod fault;
pub mod init;
mod keyed;
pub mod layers;
mod level;
mod names;
pub mod peers;
mod retries;
pub mod routes;
pub mod schema;
pub mod sealing;
pub mod secret;
pub mod show;
#[cfg(test)]
mod tests;
pub mod top;
pub mod value;
mod warnings;

use steadfast::client::{Scheme, TlsError, TlsFiles, TlsPart, UpstreamTls};
use steadfast::store::sealed::Keys;

use address::StoreUrl;
use document::{Entry, LARGEST_FILE, Table, Value};
use environment::Environment;
use fault::{Fault, Faults, Kind, Place, Warning, Wrong};
use layers::Origin;
use level::{DEFAULTS, ROUTE, Walker, Written};
use names::Level;
use routes::Route;
use top::{Flags, Top};

/// Most routes: they are tried one after the other for each request.
const MOST_ROUTES: usize = 1000;

/// Everything that the gateway is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What holds for all routes together.
    pub top: Top,
    /// In the order in which they are tried, at least one.
    pub routes: Vec<Route>,
    /// How `https:` upstreams are spoken to, where there is one.
    pub upstream_tls: Option<UpstreamTls>,
    /// What may surprise.
    pub warnings: Vec<Warning>,
}

/// Settings from a file.
pub fn from_file(
    path: &Path,
    flags: &Flags,
    environment: &Environment,
) -> Result<Settings, Faults> {
    let name = path.display().to_string();
    let text = read_file(path, &name)?;
    parse(&text, &name, flags, environment)
}

/// Settings from the text of a file called `name`.
pub fn parse(
    text: &str,
    name: &str,
    flags: &Flags,
    environment: &Environment,
) -> Result<Settings, Faults> {
    let whole = file(name);
    let table = document(text, &whole)?;
    let mut faults = Vec::new();
    let written = Walker {
        file: &whole,
        faults: &mut faults,
    }
    .level(&table, Level::Top, "");
    let sources = top::Sources {
        whole: &whole,
        written: &written,
        flags,
        environment,
    };
    let top = Top::read(&sources, &mut faults);
    let routes = read_routes(&table, &whole, &top, &mut faults);
    let tls = upstream_tls(&top, &routes, &whole, &mut faults);
    Faults::none(faults)?;
    Ok(complete(top, routes, tls, environment))
}

/// Settings without a file: everything goes to one upstream.
pub fn for_upstream(
    to: &str,
    flags: &Flags,
    environment: &Environment,
) -> Result<Settings, Faults> {
    let whole = Place::Flag("--to");
    let mut faults = Vec::new();
    let written = Written::default();
    let sources = top::Sources {
        whole: &whole,
        written: &written,
        flags,
        environment,
    };
    let top = Top::read(&sources, &mut faults);
    let own = Written::typed([
        ("path", Value::Text("/{*rest}".to_owned())),
        ("to", Value::Text(to.to_owned())),
    ]);
    let sources = routes::Sources {
        whole: whole.clone(),
        defaults: &written,
        own: &own,
        top: &top,
    };
    let routes: Vec<Route> = Route::read(&sources, &mut faults).into_iter().collect();
    let tls = upstream_tls(&top, &routes, &whole, &mut faults);
    Faults::none(faults)?;
    Ok(complete(top, routes, tls, environment))
}

/// The store alone, from `--store`, the environment or a file, whose other settings are not judged:
/// an operator's commands run where the gateway's secrets are not.
pub fn store(
    config: Option<&Path>,
    flag: Option<&str>,
    environment: &Environment,
) -> Result<StoreUrl, Faults> {
    of_store(config, flag, environment, top::store_of)
}

/// The same, with the keys of what the store keeps. Without a file there are none.
pub fn store_and_keys(
    config: Option<&Path>,
    flag: Option<&str>,
    environment: &Environment,
) -> Result<(StoreUrl, Keys), Faults> {
    of_store(config, flag, environment, |sources, faults| {
        let keys = top::sealing_of(sources, faults).keys;
        (top::store_of(sources, faults), keys)
    })
}

fn of_store<T>(
    config: Option<&Path>,
    flag: Option<&str>,
    environment: &Environment,
    read: impl Fn(&top::Sources<'_>, &mut Vec<Fault>) -> T,
) -> Result<T, Faults> {
    let flags = Flags {
        store: flag.map(str::to_owned),
        ..Flags::default()
    };
    let (mut whole, mut table) = (Place::Flag("--store"), Table::new());
    if let Some(path) = config {
        let name = path.display().to_string();
        whole = file(&name);
        table = document(&read_file(path, &name)?, &whole)?;
    }
    let written = Walker {
        file: &whole,
        faults: &mut Vec::new(),
    }
    .level(&table, Level::Top, "");
    let sources = top::Sources {
        whole: &whole,
        written: &written,
        flags: &flags,
        environment,
    };
    let mut faults = Vec::new();
    let found = read(&sources, &mut faults);
    Faults::none(faults)?;
    Ok(found)
}

/// What upstreams are trusted by, read once. Files that are named are judged although no upstream
/// needs them yet.
fn upstream_tls(
    top: &Top,
    routes: &[Route],
    whole: &Place,
    faults: &mut Vec<Fault>,
) -> Option<UpstreamTls> {
    let is_needed = routes
        .iter()
        .any(|route| route.to.scheme() == Scheme::Https);
    if !is_needed && top.upstream_tls == TlsFiles::default() {
        return None;
    }
    let refused = |error: TlsError| {
        let setting = match error.part {
            TlsPart::Roots => "upstream_tls",
            TlsPart::Ca => "upstream_tls.ca",
            TlsPart::ClientCert => "upstream_tls.client_cert",
            TlsPart::ClientKey => "upstream_tls.client_key",
        };
        let place = match top.origins.of(setting) {
            Origin::At(place) => place,
            Origin::Default => whole.clone(),
        };
        let wrong = Wrong::new(Kind::Unreadable, error.reason, error.next);
        faults.push(wrong.at(place, setting));
    };
    UpstreamTls::new(&top.upstream_tls).map_err(refused).ok()
}

fn complete(
    top: Top,
    routes: Vec<Route>,
    upstream_tls: Option<UpstreamTls>,
    environment: &Environment,
) -> Settings {
    let mut settings = Settings {
        top,
        routes,
        upstream_tls,
        warnings: Vec::new(),
    };
    settings.warnings = warnings::of(&settings, environment);
    settings
}

fn file(name: &str) -> Place {
    Place::File {
        path: name.to_owned(),
        line: None,
    }
}

fn read_file(path: &Path, name: &str) -> Result<String, Faults> {
    let unreadable = |reason: String| {
        let wrong = Wrong::new(
            Kind::Unreadable,
            format!("the file cannot be read: {reason}"),
            "correct the path or its permissions",
        );
        Faults::from(wrong.at(file(name), ""))
    };
    let opened = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = opened.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > LARGEST_FILE {
        let reason = format!("the file is larger than {}", value::show_size(LARGEST_FILE));
        let next = "name a configuration, or split the gateway";
        return Err(Wrong::new(Kind::Unreadable, reason, next)
            .at(file(name), "")
            .into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = sound.iter().filter(|byte| **byte == b'\n').count() + 1;
        let wrong = Wrong::new(Kind::Syntax, "the text is no UTF-8", "save it as UTF-8");
        wrong.at(file(name).line(line), "").into()
    })
}

fn document(text: &str, whole: &Place) -> Result<Table, Faults> {
    document::parse(text).map_err(|error| {
        let reason = format!("not TOML: {}", error.reason);
        let wrong = Wrong::new(Kind::Syntax, reason, "correct this line");
        wrong.at(whole.line(error.line), "").into()
    })
}

fn read_routes(table: &Table, whole: &Place, top: &Top, faults: &mut Vec<Fault>) -> Vec<Route> {
    let defaults = head(table, DEFAULTS).map(|entry| match &entry.value {
        Value::Table(table) => Walker {
            file: whole,
            faults,
        }
        .level(table, Level::Shared, "defaults."),
        other => {
            let wrong = value::wrong_type(other, "a table", "[defaults] on a line of its own");
            faults.push(wrong.at(whole.line(entry.line), DEFAULTS));
            Written::default()
        }
    });
    let defaults = defaults.unwrap_or_default();
    let (mut routes, mut names) = (Vec::new(), Vec::new());
    for (index, (line, table)) in route_tables(table, whole, faults).into_iter().enumerate() {
        let label = format!("route {}: ", route_label(table, index));
        let own = Walker {
            file: whole,
            faults,
        }
        .level(table, Level::Route, &label);
        let sources = routes::Sources {
            whole: whole.line(line),
            defaults: &defaults,
            own: &own,
            top,
        };
        let route = Route::read(&sources, faults);
        if let Some(entry) = own.get("name") {
            if names.contains(&&entry.value) {
                let reason = "another route has this name already";
                let wrong = Wrong::new(Kind::Contradiction, reason, "name each route once");
                faults.push(wrong.at(whole.line(entry.line), format!("{label}name")));
            }
            names.extend(head(table, "name").map(|entry| &entry.value));
        }
        routes.extend(route);
    }
    routes
}

fn head<'a>(table: &'a Table, name: &str) -> Option<&'a Entry> {
    let found = table.iter().find(|(own, _)| own == name);
    found.map(|(_, entry)| entry)
}

/// The tables of all routes, each with its line.
fn route_tables<'a>(
    table: &'a Table,
    whole: &Place,
    faults: &mut Vec<Fault>,
) -> Vec<(usize, &'a Table)> {
    let example = "a [[route]] with `path` and `to`";
    let Some(entry) = head(table, ROUTE) else {
        let next = format!("add {example}");
        let wrong = Wrong::new(Kind::Missing, "there is no route", next);
        faults.push(wrong.at(whole.clone(), ROUTE));
        return Vec::new();
    };
    let place = whole.line(entry.line);
    let Value::List(list) = &entry.value else {
        let wrong = value::wrong_type(&entry.value, "a list of routes", "[[route]]");
        faults.push(wrong.at(place, ROUTE));
        return Vec::new();
    };
    if list.is_empty() || list.len() > MOST_ROUTES {
        let reason = format!("there are {} routes", list.len());
        let next = format!("write one to {MOST_ROUTES} of them");
        faults.push(Wrong::invalid(reason, next).at(place, ROUTE));
        return Vec::new();
    }
    let mut tables = Vec::with_capacity(list.len());
    for element in list {
        if let Value::Table(table) = &element.value {
            tables.push((element.line, table));
        } else {
            let wrong = value::wrong_type(&element.value, "a route", example);
            faults.push(wrong.at(whole.line(element.line), ROUTE));
        }
    }
    tables
}

/// What a route is called in messages: its name, else its path, else its number.
fn route_label(table: &Table, index: usize) -> String {
    const MOST: usize = 64;
    let named = ["name", "path"]
        .iter()
        .find_map(|name| match head(table, name) {
            Some(Entry {
                value: Value::Text(text),
                ..
            }) => Some(text),
            _ => None,
        });
    match named {
        Some(text) => format!("{:?}", text.chars().take(MOST).collect::<String>()),
        None => (index + 1).to_string(),
    }
}
