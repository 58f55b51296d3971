//! The table says of each setting what its reader takes.

use super::*;
use crate::settings::parse;

#[test]
fn every_setting_that_is_acted_on_has_one_row_in_the_same_order() {
    let acted: Vec<&str> = acted().map(|(setting, _)| setting.name).collect();
    let rows: Vec<&str> = ABOUT.iter().map(|about| about.name).collect();
    assert_eq!(
        rows, acted,
        "a row for each setting of names.rs, and no other"
    );
    let missing = SETTINGS
        .iter()
        .filter(|s| matches!(s.support, Support::Acted));
    assert_eq!(missing.count(), rows.len());
}

#[test]
fn what_has_no_example_has_a_built_in_value() {
    let built_in = built_in();
    for about in ABOUT {
        let has = built_in.contains_key(about.name);
        assert_eq!(has, about.example.is_none(), "{}", about.name);
    }
}

/// What a configuration with this value of a setting is refused with.
fn refusal(setting: &Setting, value: &str) -> String {
    let line = format!("{} = {value}\n", setting.name);
    let needed = [("path", "\"/\""), ("to", "\"http://h\"")];
    let needed = needed.iter().filter(|(name, _)| *name != setting.name);
    let needed: String = needed
        .map(|(name, value)| format!("{name} = {value}\n"))
        .collect();
    let route = format!("[[route]]\n{needed}");
    let text = match setting.level {
        crate::settings::names::Level::Top => format!("{line}{route}"),
        _ => format!("{route}{line}"),
    };
    let refused = parse(&text, "s.toml", &Flags::default(), &Environment::default());
    refused.map_or_else(|faults| faults.to_string(), |_| String::new())
}

#[test]
fn words_bounds_and_sizes_are_those_of_the_readers() {
    for (setting, about) in acted() {
        let (value, says) = match about.shape {
            Shape::Words(words) => {
                let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                ("\"-\"", format!("write {}.", words.join(" or ")))
            }
            Shape::Whole(least, most) => ("-1", format!("write a number from {least} to {most}.")),
            Shape::Length => ("\"1us\"", "`us` in `1us` is not a unit".to_owned()),
            Shape::PositiveLength => ("\"0s\"", "".to_owned()),
            Shape::Size => ("\"0B\"", "write a size from 1B to 512MiB.".to_owned()),
            Shape::Methods => ("[]", "an empty list of methods".to_owned()),
            Shape::Range(most) => ("[0, 1]", format!("write a number from 1 to {most}.")),
            Shape::Statuses(least) => ("[600]", format!("write a number from {least} to 599.")),
            Shape::Share(_) => ("1.5", "1.5 is no share of one".to_owned()),
            Shape::WordList(words) => ("[\"-\"]", format!("write \"{}\"", words[0])),
            Shape::Text(most) => ("\"\"", format!("a name has 1 to {most} characters")),
            Shape::Switch => ("1", "stands where".to_owned()),
            _ => ("false", "stands where".to_owned()),
        };
        let refused = refusal(setting, value);
        assert!(!refused.is_empty(), "{} takes {value}", about.name);
        assert!(refused.contains(&says), "{}: {refused}", about.name);
    }
}
