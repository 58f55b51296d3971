//! The process's environment, read once and passed on as a value.

use std::collections::BTreeMap;

/// Begins the name of every variable that is a setting.
const PREFIX: &str = "STEADFAST_";

/// Environment variables. A value that is no UTF-8 is there, but cannot be read.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, Option<String>>);

impl Environment {
    /// The environment of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reader of the environment"
    )]
    pub fn of_process() -> Environment {
        let variables = std::env::vars_os();
        variables
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())))
            .collect()
    }

    /// The value of a variable: none where it is not set, none inside where it is no UTF-8.
    pub fn get(&self, name: &str) -> Option<Option<&str>> {
        self.0.get(name).map(Option::as_deref)
    }

    /// Names of variables that begin like a setting's, without that beginning.
    pub fn own(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| name.strip_prefix(PREFIX))
    }

    /// The variable that sets a setting of the top level: `STEADFAST_STORE` for `store`,
    /// `STEADFAST_LOG_FORMAT` for `log.format`.
    pub fn variable(setting: &str) -> String {
        format!("{PREFIX}{}", setting.to_ascii_uppercase().replace('.', "_"))
    }
}

impl FromIterator<(String, Option<String>)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, Option<String>)>>(variables: I) -> Self {
        Environment(variables.into_iter().collect())
    }
}
