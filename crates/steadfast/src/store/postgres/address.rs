//! Where the database is: a URL as PostgreSQL's own programs take it.
//!
//! Decides which parameters are taken and what is shown of a URL. Rule: no form of an address shows
//! a password, and no message repeats the text that it was read from (S2). Source: the connection
//! URIs of libpq.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

/// How long a connection may take to stand, where the URL does not say. Below the default
/// `store_timeout` of 2 s, so that callers are told why.
const CONNECT_WITHIN: Duration = Duration::from_millis(1500);

/// Parameters that are handed on as they are.
const PASSED: [&str; 13] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "options",
    "password",
    "port",
    "tcp_user_timeout",
    "user",
];

/// What `sslmode` asks for, with libpq's meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// No TLS.
    Disable,
    /// TLS where the server has it, with whoever answers.
    Prefer,
    /// TLS, with whoever answers; with `sslrootcert` as [`Mode::VerifyCa`].
    Require,
    /// TLS, with a certificate that a trusted authority signed.
    VerifyCa,
    /// The same, and for this host.
    VerifyFull,
}

/// The address of a database, with what is needed to connect.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// The URL without its password.
    shown: String,
    pub(super) config: Config,
    pub(super) mode: Mode,
    /// The authorities that are trusted in place of the system's.
    pub(super) roots: Option<PathBuf>,
}

/// Why a text is no address. It never repeats the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub next: &'static str,
}

const EXAMPLE: &str = "write \"postgres://USER:PASSWORD@HOST/DATABASE\"";

fn wrong(reason: impl Into<String>, next: &'static str) -> AddressError {
    let reason = reason.into();
    AddressError { reason, next }
}

impl Address {
    /// Reads `postgres://…` or `postgresql://…`.
    ///
    /// # Errors
    /// [`AddressError`] for another scheme, an unknown parameter, and what is no URL.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or_else(|| wrong("it does not begin with `postgres://`", EXAMPLE))?;
        // A password with a bare `@` would be cut in the wrong place, and half of it shown.
        if rest.matches('@').count() > 1 {
            let next = "write every `@` of a user, password or parameter as %40";
            return Err(wrong("it has more than one `@`", next));
        }
        let (user, place) = match rest.split_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
        let mut address = Address {
            shown: "postgres://".to_owned(),
            config: Config::new(),
            mode: Mode::Prefer,
            roots: None,
        };
        let mut passed = Vec::new();
        let mut shown = Vec::new();
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => address.mode = mode(value)?,
                "sslrootcert" => address.roots = roots(value)?,
                name if PASSED.contains(&name) => passed.push(pair),
                _ => return Err(unknown(name)),
            }
            if name != "password" {
                shown.push(pair);
            }
        }
        let before = user.map(|user| format!("{user}@")).unwrap_or_default();
        let whole = format!("postgres://{before}{place}?{}", passed.join("&"));
        // The parser's own words may name what they could not read.
        let read = Config::from_str(whole.trim_end_matches('?'));
        address.config = read.map_err(|_| wrong("it is not a URL of a database", EXAMPLE))?;
        address.settle();
        if let Some((user, _)) = user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            address.shown += &format!("{user}@");
        }
        address.shown += place;
        if !shown.is_empty() {
            address.shown += &format!("?{}", shown.join("&"));
        }
        Ok(address)
    }

    fn settle(&mut self) {
        let config = &mut self.config;
        config.ssl_mode(match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host("localhost");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        if config.get_application_name().is_none() {
            config.application_name("steadfast");
        }
        // A standby answers with what was true some time ago, and takes no writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }

    /// How long a connection may take to stand.
    pub(super) fn connect_within(&self) -> Duration {
        let each = self.config.get_connect_timeout();
        each.copied().unwrap_or(CONNECT_WITHIN)
    }
}

fn mode(word: &str) -> Result<Mode, AddressError> {
    Ok(match word {
        "disable" => Mode::Disable,
        "prefer" => Mode::Prefer,
        "require" => Mode::Require,
        "verify-ca" => Mode::VerifyCa,
        "verify-full" => Mode::VerifyFull,
        _ => {
            let next = "write one of disable, prefer, require, verify-ca, verify-full";
            return Err(wrong("`sslmode` has another value", next));
        }
    })
}

fn roots(value: &str) -> Result<Option<PathBuf>, AddressError> {
    let path = percent_encoding::percent_decode_str(value).decode_utf8();
    match path {
        Ok(path) if path == "system" => Ok(None),
        Ok(path) if !path.is_empty() && !path.contains('\0') => {
            Ok(Some(PathBuf::from(path.into_owned())))
        }
        _ => {
            let next = "name a file of certificates in PEM, or `system`";
            Err(wrong("`sslrootcert` names no file", next))
        }
    }
}

fn unknown(name: &str) -> AddressError {
    // What is no name may be the rest of a password.
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let reason = match is_name && name.len() <= 32 {
        true => format!("the parameter `{name}` is not taken"),
        false => "it has a parameter that is not taken".to_owned(),
    };
    wrong(
        reason,
        "remove it; of TLS there are `sslmode` and `sslrootcert`",
    )
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.next)
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    // rule: the-password-of-a-store-is-never-shown
    #[test]
    fn no_form_of_an_address_shows_its_password() {
        for text in [
            "postgres://u:hunter2@h/db",
            "postgres://u:hunter2@h:5433/db?sslmode=require",
            "postgresql://u@h/db?password=hunter2&application_name=a",
            "postgres:///db?host=/run/pg&user=u&password=hunter2",
            "postgres://u:hunter2/x?y@h/db",
            "postgres://u:%68unter2hunter2@h/db",
        ] {
            let Ok(address) = Address::parse(text) else {
                panic!("an address of this form is taken");
            };
            let shown = format!("{address} {address:?}");
            assert!(!shown.contains("unter2"), "{shown}");
        }
        for text in [
            "postgres://u:hun@ter2@h/db",
            "postgres://u:hunter2",
            "postgres://u:hunter2@h/db?hunter2=1",
            "postgres://u:p@h/db?HUNTER2",
            "postgres://u:p@h/db?sslmode=hunter2",
            "postgres://u:p@h:hunter2/db",
            "redis://u:hunter2@h",
        ] {
            let refused = Address::parse(text).expect_err("no address");
            let shown = format!("{refused} {refused:?}").replace("the parameter `hunter", "");
            assert!(!shown.to_lowercase().contains("ter2"), "{shown}");
        }
    }

    #[test]
    fn sslmode_means_what_it_means_to_other_programs() {
        let of = |parameters: &str| {
            let address = Address::parse(&format!("postgres://h/db?{parameters}"));
            address.map(|address| (address.mode, address.config.get_ssl_mode()))
        };
        assert_eq!(of(""), Ok((Mode::Prefer, SslMode::Prefer)));
        assert_eq!(of("sslmode=disable"), Ok((Mode::Disable, SslMode::Disable)));
        let full = of("sslmode=verify-full&sslrootcert=/etc/ca.pem");
        assert_eq!(full, Ok((Mode::VerifyFull, SslMode::Require)));
        assert!(of("sslmode=allow").is_err());
        assert!(of("sslcert=x").is_err());
    }
}
