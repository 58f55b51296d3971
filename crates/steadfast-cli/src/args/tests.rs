//! What can be typed, and what is wrong usage.

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

/// A stand-in for the program, so that each command is tested by itself.
#[derive(Debug, Parser)]
enum Typed {
    Demo(DemoArgs),
    Gateway(GatewayArgs),
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(subcommand)]
    Keys(KeysCommand),
    #[command(subcommand)]
    Store(StoreCommand),
}

fn typed(line: &str) -> Result<Typed, ErrorKind> {
    let words = std::iter::once("steadfast").chain(line.split_whitespace());
    Typed::try_parse_from(words).map_err(|error| error.kind())
}

#[test]
fn the_arguments_are_sound() {
    Arguments::command().debug_assert();
    Typed::command().debug_assert();
}

#[test]
fn wrong_usage_is_refused() {
    use ErrorKind::*;
    let table = [
        ("demo --seed 3", UnknownArgument),
        ("demo orders", UnknownArgument),
        ("gateway", MissingRequiredArgument),
        ("gateway --to http://a --config b", ArgumentConflict),
        ("gateway --to http://a --lisen b", UnknownArgument),
        ("keys list --state lost", ValueValidation),
        ("keys list --limit 0", ValueValidation),
        ("keys list --key k", MissingRequiredArgument),
        ("keys list --principal p", MissingRequiredArgument),
        ("keys list --store a --config b", ArgumentConflict),
        ("keys show", MissingRequiredArgument),
        ("keys resolve id", MissingRequiredArgument),
        ("keys resolve id --status 100", ValueValidation),
        ("keys resolve id --status 600", ValueValidation),
        ("keys release id --state unknown", ArgumentConflict),
        ("keys release id --limit 3", ArgumentConflict),
        ("keys stats --top 1001", ValueValidation),
        ("keys sweep --state unknown", UnknownArgument),
        ("config init --force", MissingRequiredArgument),
        ("config show", MissingRequiredArgument),
        ("store drop", InvalidSubcommand),
    ];
    for (line, kind) in table {
        assert_eq!(typed(line).err(), Some(kind), "{line}");
    }
}

#[test]
fn every_documented_flag_is_taken() {
    for line in [
        "demo",
        "demo --stay --pause --json",
        "gateway --to http://a --listen b --admin c --store d",
        "gateway --config a --listen b --admin c --store d",
        "keys new --json",
        "keys list",
        "keys list --state unknown --older-than 1h --expired-lease --owner o --limit 3 --json",
        "keys list --key k --principal p --store sqlite:a",
        "keys show id --config a --json",
        "keys resolve id --status 201 --header a:b --header c:d --body @file --yes --json",
        "keys resolve id --status 204 --body -",
        "keys release a b c --yes",
        "keys release --state unknown --older-than 1h --limit 10 --yes",
        "keys sweep --yes --json --store sqlite:a",
        "keys stats --top 3 --json --config a",
        "config init -o a --force --json",
        "config schema",
        "store status --json",
        "store migrate --print",
    ] {
        assert!(typed(line).is_ok(), "{line}: {:?}", typed(line));
    }
}

#[test]
fn a_release_of_nothing_in_particular_is_seen() {
    let release = |line: &str| match typed(line) {
        Ok(Typed::Keys(KeysCommand::Release(args))) => args.names_nothing(),
        other => panic!("{line}: {other:?}"),
    };
    assert!(release("keys release") && release("keys release --limit 5 --yes"));
    assert!(!release("keys release id") && !release("keys release --expired-lease"));
}
