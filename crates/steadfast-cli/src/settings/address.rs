//! Where things are: the address of a listener, of an upstream, of a store.
//!
//! Decides which texts are addresses, and which kinds of store and upstream this build reaches. No
//! message repeats a URL that may hold a password.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use steadfast::client::Target;
use steadfast::store::postgres::{Address, AddressError};

use super::fault::{Kind, Wrong};

/// An address to listen on. Names are not resolved: which of a name's addresses was meant is not
/// guessed.
pub fn listener(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse().map_err(|_| {
        Wrong::invalid(
            format!("`{text}` is not an address with a port"),
            "write one such as \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::1]:8080\"",
        )
    })
}

/// Where records are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file of SQLite's, relative to the working directory.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(Box<Address>),
    /// In the process, gone with it.
    Memory,
}

impl Default for StoreUrl {
    fn default() -> Self {
        StoreUrl::Sqlite(PathBuf::from("steadfast.db"))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreUrl::Postgres(address) => write!(f, "{address}"),
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

const STORE_HELP: &str =
    "write \"sqlite:FILE\", \"postgres://USER:PASSWORD@HOST/DATABASE\" or \"memory:\"";

/// Schemes of stores that are known, but not reached yet.
const OTHER_STORES: [&str; 3] = ["redis", "rediss", "etcd"];

/// A store by its URL.
pub fn store(text: &str) -> Result<StoreUrl, Wrong> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(Wrong::invalid("the store has no scheme", STORE_HELP));
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(StoreUrl::Memory),
        "memory" => Err(Wrong::invalid(
            "a store in memory has no name",
            "write \"memory:\"",
        )),
        "sqlite" => sqlite_file(rest),
        "postgres" | "postgresql" => match Address::parse(text) {
            Ok(address) => Ok(StoreUrl::Postgres(Box::new(address))),
            Err(AddressError { reason, next }) => Err(Wrong::invalid(reason, next)),
        },
        scheme if OTHER_STORES.contains(&scheme) => Err(Wrong::new(
            Kind::NotYetSupported,
            format!("a store of kind `{scheme}:` is not yet supported"),
            STORE_HELP,
        )),
        _ => Err(Wrong::invalid("no store is reached so", STORE_HELP)),
    }
}

/// `sqlite:FILE`, and `sqlite:///FILE` as other programs write it.
fn sqlite_file(rest: &str) -> Result<StoreUrl, Wrong> {
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => {
            return Err(Wrong::invalid(
                "after `sqlite://` a host would stand, and a file has none",
                "write \"sqlite:FILE\", or \"sqlite:///FILE\" for an absolute path",
            ));
        }
        None => rest,
    };
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        return Err(Wrong::invalid("the store names no file", STORE_HELP));
    }
    if path.starts_with(':') {
        return Err(Wrong::invalid(
            "SQLite's own stores in memory are not used",
            "write \"memory:\" for a store that is gone with the process",
        ));
    }
    if path.contains('?') {
        return Err(Wrong::invalid(
            "a store's file takes no parameters",
            "remove everything from the `?` on",
        ));
    }
    Ok(StoreUrl::Sqlite(Path::new(path).to_owned()))
}

const UPSTREAM_HELP: &str =
    "write one such as \"http://127.0.0.1:3000\" or \"https://orders.example\"";

/// An upstream by its URL: scheme, host and port.
pub fn upstream(text: &str) -> Result<Target, Wrong> {
    let invalid = |reason: &str| Wrong::invalid(reason, UPSTREAM_HELP);
    let uri: Uri = text
        .parse()
        .map_err(|_| invalid("the upstream is not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid(
            "the upstream's URL begins neither with `http://` nor with `https://`",
        ));
    }
    let authority = uri
        .authority()
        .ok_or_else(|| invalid("the URL has no host"))?;
    if authority.as_str().contains('@') {
        return Err(invalid("a URL of an upstream holds no user and password"));
    }
    if authority.host().is_empty() {
        return Err(invalid("the URL has no host"));
    }
    let has_port =
        !authority.as_str().ends_with(':') && authority.as_str().len() > authority.host().len();
    if has_port && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(invalid("the URL's port is not one from 1 to 65535"));
    }
    if text.contains('#') || !matches!(uri.path_and_query().map(|p| p.as_str()), None | Some("/")) {
        return Err(Wrong::invalid(
            "the upstream's URL has more than a host and a port, and paths are passed on as sent",
            UPSTREAM_HELP,
        ));
    }
    Target::parse(text).map_err(|error| invalid(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_file_or_memory() {
        let file = |path: &str| Some(StoreUrl::Sqlite(PathBuf::from(path)));
        let table = [
            ("sqlite:steadfast.db", file("steadfast.db")),
            ("sqlite:/var/lib/s.db", file("/var/lib/s.db")),
            ("sqlite:///var/lib/s.db", file("/var/lib/s.db")),
            ("memory:", Some(StoreUrl::Memory)),
            ("memory:x", None),
            ("sqlite:", None),
            ("sqlite:/var/lib/", None),
            ("sqlite://host/s.db", None),
            ("sqlite::memory:", None),
            ("sqlite:s.db?mode=ro", None),
            ("postgres://u:p@h/db?sslmode=no", None),
            ("redis://h", None),
            ("steadfast.db", None),
            ("mysql:x", None),
        ];
        for (text, expected) in table {
            assert_eq!(store(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn an_upstream_is_a_host_and_a_port() {
        let table = [
            ("http://127.0.0.1:3000", Some(("127.0.0.1", 3000))),
            ("http://[::1]:3000/", Some(("::1", 3000))),
            ("http://orders", Some(("orders", 80))),
            ("HTTP://orders:8", Some(("orders", 8))),
            ("https://orders", Some(("orders", 443))),
            ("orders:3000", None),
            ("//orders", None),
            ("http://", None),
            ("http://orders:0", None),
            ("http://orders:99999", None),
            ("http://orders/base", None),
            ("http://orders/?q", None),
            ("http://orders#f", None),
            ("http://u:p@orders", None),
            ("ftp://orders", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = upstream(text);
            let found = found
                .as_ref()
                .ok()
                .map(|u| (u.host().to_string(), u.port()));
            assert_eq!(
                found,
                expected.map(|(host, port): (&str, u16)| (host.to_owned(), port)),
                "{text}"
            );
        }
    }

    #[test]
    fn no_message_repeats_a_password() {
        let wrong = [
            store("postgres://u:hunter2@h@h/db").map(|_| ()),
            store("postgres:u:hunter2@h/db").map(|_| ()),
            store("redis://u:hunter2@h/db").map(|_| ()),
            store("mysql://u:hunter2@h/db").map(|_| ()),
            upstream("http://u:hunter2@h").map(|_| ()),
            upstream("https://u:hunter2@h").map(|_| ()),
        ];
        for wrong in wrong {
            let wrong = wrong.expect_err("refused");
            assert!(!format!("{} {}", wrong.reason, wrong.next).contains("hunter2"));
        }
    }
}
