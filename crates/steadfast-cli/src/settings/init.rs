//! The configuration to start from: every setting that is acted on, with its built-in value.
//!
//! Decides what stands in it as a setting and what as a comment. Below `[defaults]` all is
//! commented out: a value that merely repeats what is built in would stay when a release has a
//! better one, and a limit written beside a shorter deadline is refused, where a built-in one is
//! cut to it. It can be run as it is, and then means what no configuration at all means.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::about::{About, acted, built_in};
use super::names::Level;
use super::show::toml;

const HEAD: &str = "\
# A configuration of steadfast, with all settings of this release and their built-in values.
#
#   steadfast config check --config FILE    says whether it can be run
#   steadfast config show --config FILE     prints what holds, and where it came from
#   steadfast gateway --config FILE         runs it
#
# A line such as `#deadline = \"30s\"` changes nothing: remove its # to set another value. Lengths
# and sizes have units: 500ms, 30s, 10m, 24h, 7d; 64KiB, 1MiB. Secrets never stand in this file.
";

/// The column at which comments begin, where the setting leaves room.
const COLUMN: usize = 44;

/// The configuration, as TOML.
pub fn text() -> String {
    let values = built_in();
    let mut text = format!("{HEAD}\n");
    level(&mut text, Level::Top, &values);
    text.push_str("\n[defaults]  # every route starts from these\n");
    level(&mut text, Level::Shared, &values);
    text.push_str("\n[[route]]  # routes are tried in their order; the first that fits wins\n");
    level(&mut text, Level::Route, &values);
    text.push_str(
        "# Every setting of [defaults] can stand in a route, too, and weighs more there.\n",
    );
    text
}

fn level(text: &mut String, level: Level, values: &BTreeMap<&'static str, Value>) {
    let own = acted().filter(|(setting, _)| setting.level == level);
    let mut table = "";
    for (_, about) in own {
        let next = about.name.split_once('.').map_or("", |(table, _)| table);
        if next != table {
            text.push('\n');
        }
        table = next;
        line(text, about, level, values.get(about.name));
    }
}

fn line(text: &mut String, about: &About, level: Level, built_in: Option<&Value>) {
    let needed = ["path", "to"].contains(&about.name);
    let is_set = needed || (level == Level::Top && built_in.is_some());
    let mark = if is_set { "" } else { "#" };
    let value = built_in.map(toml);
    let value = value.as_deref().or(about.example).unwrap_or("\"\"");
    let setting = format!("{mark}{} = {value}", about.name);
    // Writing to a string does not fail.
    let _ = writeln!(text, "{setting:<COLUMN$}  # {}", about.about);
}
