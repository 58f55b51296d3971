//! The policy that `plan` and `explain` speak of: of a route, or of nothing but what was typed.

use std::io::{self, Write};
use std::path::Path;

use steadfast_core::policy::RoutePolicy;

use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::from_file;
use crate::settings::top::Flags;

/// The policy of the route called `name` in the configuration `config`; of its only route without a
/// name; the defaults without a configuration. `Err` is the exit code of what was told on `err`.
pub fn of(
    config: Option<&Path>,
    name: Option<&str>,
    environment: &Environment,
    err: &mut dyn Write,
) -> io::Result<Result<RoutePolicy, Exit>> {
    let Some(path) = config else {
        return Ok(Ok(RoutePolicy::default()));
    };
    let settings = match from_file(path, &Flags::default(), environment) {
        Ok(settings) => settings,
        Err(faults) => {
            write!(err, "{faults}")?;
            return Ok(Err(Exit::Configuration));
        }
    };
    let mut routes = settings.routes.iter();
    let found = match name {
        Some(name) => routes.find(|route| route.name == name),
        None => routes.next().filter(|_| settings.routes.len() == 1),
    };
    if let Some(route) = found {
        return Ok(Ok(route.policy.clone()));
    }
    let names: Vec<&str> = settings.routes.iter().map(|route| &*route.name).collect();
    let (path, names) = (path.display(), names.join(", "));
    match name {
        Some(name) => writeln!(
            err,
            "error: --route: {path} has no route `{name}`; write one of: {names}"
        )?,
        None => writeln!(
            err,
            "error: {path} has several routes; add --route with one of: {names}"
        )?,
    }
    Ok(Err(Exit::Usage))
}
