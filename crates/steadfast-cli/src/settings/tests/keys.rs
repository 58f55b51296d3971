//! `encrypt_with`: what is a key, and what is said of everything else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

const RAW: [u8; 32] = *b"\x00\x01\x02\xff1234567890abcdefghijklmnopqr";
const HEX: &str = "000102ff313233343536373839306162636465666768696A6b6c6d6e6f707172";
const BASE64: &str = "AAEC/zEyMzQ1Njc4OTBhYmNkZWZnaGlqa2xtbm9wcXI=";

fn key(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("the file is written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, private).expect("its mode");
    format!("{{ id = \"{name}\", file = {path:?} }}")
}

fn keys(list: &[String]) -> String {
    format!("encrypt_with = [\n{},\n]\n{ROUTE_LINES}", list.join(",\n"))
}

fn ids(settings: &Settings) -> Vec<String> {
    let ids = settings.top.encrypt_with.keys.ids();
    ids.map(str::to_owned).collect()
}

#[test]
fn a_key_is_32_bytes_or_a_text_of_them_from_a_file_or_a_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let forms = [
        ("raw", RAW.to_vec()),
        ("hex", HEX.into()),
        ("hex-line", format!("{HEX}\n").into()),
        ("base64", BASE64.into()),
        ("base64-line", format!("{BASE64}\r\n").into()),
        ("unpadded", BASE64.trim_end_matches('=').into()),
    ];
    let mut list: Vec<String> = forms
        .iter()
        .map(|(name, bytes)| key(folder.path(), name, bytes))
        .collect();
    list.push("{ env = \"SEALING_KEY\", id = \"variable\" }".to_owned());
    let environment = environment(&[("SEALING_KEY", HEX)]);
    let text = keys(&list);
    let settings = parse(&text, "s.toml", &Flags::default(), &environment).expect("sound");
    let mut names: Vec<String> = forms.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.push("variable".to_owned());
    assert_eq!(ids(&settings), names);
    let all = format!(
        "{settings:?}{}{}",
        show::text(&settings),
        show::json(&settings)
    );
    assert!(!all.contains(HEX) && !all.contains(BASE64), "{all}");
    let again = parse(
        &show::text(&settings),
        "s.toml",
        &Flags::default(),
        &environment,
    );
    assert_eq!(ids(&again.expect("what is shown is sound")), names);
    let named = settings
        .warnings
        .iter()
        .any(|w| w.setting == "encrypt_with");
    assert!(!named, "{:?}", settings.warnings);
}

#[test]
fn each_wrong_key_is_told_at_its_line_with_its_reason_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |name: &str, bytes: &[u8]| key(folder.path(), name, bytes);
    let own = |text: &str| text.to_owned();
    let sound = of("k1", &RAW);
    let table = [
        (
            of("short", &RAW[..31]),
            "(31 bytes were found)",
            "openssl rand",
        ),
        (
            of("long", &[RAW, RAW].concat()),
            "(64 bytes were found)",
            "openssl rand",
        ),
        (
            of("text", &[b'x'; 32]),
            "are a text and no random key",
            "openssl rand",
        ),
        (of("empty", b""), "(0 bytes were found)", "openssl rand"),
        (
            of("odd", &HEX.as_bytes()[1..]),
            "(63 bytes were found)",
            "openssl rand",
        ),
        (
            of("huge", &[0; 5000]),
            "it is larger than",
            "correct the path",
        ),
        (
            own("{ id = \"k\", file = \"/none\" }"),
            "`/none` cannot be read",
            "correct the path",
        ),
        (
            own("{ id = \"k\", env = \"NONE\" }"),
            "`NONE` is not set",
            "set it",
        ),
        (own("{ id = \"k\" }"), "exactly one place", "write { id"),
        (
            own("{ id = \"k\", env = \"A\", file = \"b\" }"),
            "exactly one place",
            "write { id",
        ),
        (
            own("{ file = \"/none\" }"),
            "a key has a name",
            "write { id",
        ),
        (
            own("{ id = 1, file = \"/none\" }"),
            "a key has a name",
            "write { id",
        ),
        (own("\"k1\""), "a string stands where", "write { id"),
        (
            sound.replace("\"k1\"", "\"a key\""),
            "`a key` names no key",
            "write 1 to 64",
        ),
        (sound.clone(), "two keys are named `k1`", "give each a name"),
    ];
    for (wrong, reason, next) in table {
        let text = keys(&[sound.clone(), wrong.clone()]);
        let faults = read(&text).expect_err(&wrong);
        let [fault] = faults.list() else {
            panic!("{wrong}: one fault, not {faults}");
        };
        assert_eq!(refused(&text), [(3, "encrypt_with".to_owned())], "{wrong}");
        assert!(fault.reason.contains(reason), "{wrong}: {fault}");
        assert!(fault.next.contains(next), "{wrong}: {fault}");
    }
    let many = vec![sound; 33];
    assert_eq!(refused(&keys(&many)), [(1, "encrypt_with".to_owned())]);
}

// rule: a-key-that-everybody-can-read-is-said
#[test]
fn a_key_file_that_everybody_can_read_is_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = keys(&[key(folder.path(), "k1", &RAW)]);
    for (mode, expected) in [(0o600, 0), (0o640, 0), (0o604, 1), (0o644, 1)] {
        let file = folder.path().join("k1");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file, mode).expect("its mode");
        let warnings = accepted(&text).warnings;
        let found: Vec<_> = warnings
            .iter()
            .filter(|warning| warning.setting == "encrypt_with")
            .collect();
        assert_eq!(found.len(), expected);
        for warning in found {
            assert!(warning.reason.contains("everybody"), "{warning}");
            assert!(warning.next.contains("chmod o-rwx"), "{warning}");
        }
    }
}

#[test]
fn without_a_file_a_command_has_no_keys_and_with_one_those_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("s.toml");
    let key = key(folder.path(), "k1", &RAW);
    std::fs::write(&config, keys(&[key])).expect("the file is written");
    let none = Environment::default();
    let found = |config: Option<&Path>| {
        let (_, keys) = store_and_keys(config, Some("sqlite:a.db"), &none).expect("sound");
        keys.ids().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found(None), Vec::<String>::new());
    assert_eq!(found(Some(&config)), ["k1"]);
    std::fs::remove_file(folder.path().join("k1")).expect("it is removed");
    assert!(store_and_keys(Some(&config), None, &none).is_err());
    assert!(store(Some(&config), None, &none).is_ok());
}
