//! Arguments and settings that cannot be run, and addresses that cannot be had.

use std::net::TcpListener;

use crate::stage::{Folder, finish};

const ADDRESSES: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

const ROUTE: &str = "[[route]]\npath = \"/{*rest}\"\nto = \"http://127.0.0.1:1\"\n";

const OPEN_ADMIN: &str = "`0.0.0.0:8081` is reached from other machines, and no token is \
                          asked; set `admin_token = { env = \"NAME\" }`, or write a loopback \
                          address.";

const URL: &str = "write one such as \"http://127.0.0.1:3000\" or \"https://orders.example\".";
const SCHEME: &str = "the upstream's URL begins neither with `http://` nor with `https://`";

// rule: wrong-words-end-the-start-with-place-reason-and-next-step
#[test]
fn wrong_arguments_are_usage_with_the_flag_the_reason_and_the_next_step() {
    let table: [(&[&str], String); 8] = [
        (
            &["--to", "nonsense"],
            format!("error: --to: {SCHEME}; {URL}"),
        ),
        (
            &["--to", "ftp://h"],
            format!("error: --to: {SCHEME}; {URL}"),
        ),
        (
            &["--to", "http://127.0.0.1:99999"],
            format!("error: --to: the URL's port is not one from 1 to 65535; {URL}"),
        ),
        (
            &["--to", "http://h/v1"],
            format!(
                "error: --to: the upstream's URL has more than a host and a port, and paths \
                 are passed on as sent; {URL}"
            ),
        ),
        (
            &["--to", "http://h", "--admin", "0.0.0.0:8081"],
            format!("error: --admin: {OPEN_ADMIN}"),
        ),
        (
            &["--to", "http://h", "--listen", "here"],
            "error: --listen: `here` is not an address with a port; write one such as \
             \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::1]:8080\"."
                .to_owned(),
        ),
        (
            &["--to", "http://h", "--store", "records"],
            "error: --store: the store has no scheme; write \"sqlite:FILE\", \
             \"postgres://USER:PASSWORD@HOST/DATABASE\" or \"memory:\"."
                .to_owned(),
        ),
        (
            &["--to", "http://h", "--store", "etcd://h/d"],
            "error: --store: a store of kind `etcd:` is not yet supported; write \
             \"sqlite:FILE\", \
             \"postgres://USER:PASSWORD@HOST/DATABASE\" or \"memory:\"."
                .to_owned(),
        ),
    ];
    for (words, message) in table {
        let folder = Folder::new();
        let ran = folder.run(&[&["gateway"], words].concat());
        let said = (ran.code, ran.out, ran.err);
        assert_eq!(
            said,
            (2, String::new(), format!("{message}\n")),
            "{words:?}"
        );
        assert_eq!(folder.names(), [""; 0], "{words:?}");
    }
}

#[test]
fn unknown_flags_and_flags_that_exclude_each_other_are_usage() {
    let table: [(&[&str], &str); 3] = [
        (&[], "--to <URL>"),
        (&["--to", "http://h", "--workers", "4"], "'--workers'"),
        (
            &["--to", "http://h", "--config", "s.toml"],
            "'--config <FILE>'",
        ),
    ];
    for (words, named) in table {
        let folder = Folder::new();
        let ran = folder.run(&[&["gateway"], words].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}");
        assert!(
            ran.err.starts_with("error: ") && ran.err.contains(named),
            "{ran:?}"
        );
        assert!(
            ran.err.ends_with("For more information, try '--help'.\n"),
            "{ran:?}"
        );
        assert_eq!(folder.names(), [""; 0], "{words:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_run_is_refused_line_by_line() {
    let route = |more: &str| format!("{ROUTE}{more}").into_bytes();
    let top = |line: &str| format!("{line}\n{ROUTE}").into_bytes();
    let table: [(Vec<u8>, &str); 9] = [
        (
            top("lisen = \"127.0.0.1:0\""),
            "s.toml:1: error: lisen: `lisen` is not a setting; did you mean `listen`? Correct the \
             name.\n",
        ),
        (
            route("defer = \"allowed\""),
            "s.toml:4: error: route \"/{*rest}\": defer: not yet supported: nothing is deferred; \
             remove it, or write \"off\".\n",
        ),
        (
            route("idempotency = { on_unknown = \"lookup\" }"),
            "s.toml:4: error: route \"/{*rest}\": idempotency.on_unknown: `lookup` is not yet \
             supported; write \"hold\" or \"repeat\".\n",
        ),
        (
            route("idempotency = { leese = \"1s\", lease = \"1\" }"),
            "s.toml:4: error: route \"/{*rest}\": idempotency.lease: `1` has no unit; write a \
             length with its unit (ms, s, m, h or d), such as \"30s\".\n\
             s.toml:4: error: route \"/{*rest}\": idempotency.leese: `leese` is not a setting; did \
             you mean `lease`? Correct the name.\n",
        ),
        (
            top("store = \"redis://h\""),
            "s.toml:1: error: store: a store of kind `redis:` is not yet supported; write \
             \"sqlite:FILE\", \
             \"postgres://USER:PASSWORD@HOST/DATABASE\" or \"memory:\".\n",
        ),
        (
            top("admin = \"0.0.0.0:8081\""),
            "s.toml:1: error: admin: `0.0.0.0:8081` is reached from other machines, and no token \
             is asked; set `admin_token = { env = \"NAME\" }`, or write a loopback address.\n",
        ),
        (
            b"listen = \"127.0.0.1:0\"\n".to_vec(),
            "s.toml: error: route: there is no route; add a [[route]] with `path` and `to`.\n",
        ),
        (
            b"\0\xff\xfe not text".to_vec(),
            "s.toml:1: error: the text is no UTF-8; save it as UTF-8.\n",
        ),
        (
            b"listen = \n".to_vec(),
            "s.toml:1: error: not TOML: string values must be quoted, expected literal string; \
             correct this line.\n",
        ),
    ];
    for (text, message) in table {
        let folder = Folder::new();
        folder.write("s.toml", &text);
        let ran = folder.run(&["gateway", "--config", "s.toml"]);
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (3, "", message)
        );
        assert_eq!(folder.read("s.toml"), text);
        assert_eq!(folder.names(), ["s.toml"], "{message}");
    }
}

#[test]
fn a_configuration_that_is_not_there_and_wrong_variables_are_refused_by_name() {
    let folder = Folder::new();
    let ran = folder.run(&["gateway", "--config", "s.toml"]);
    let missing = "s.toml: error: the file cannot be read: No such file or directory (os error 2); \
                   correct the path or its permissions.\n";
    assert_eq!((ran.code, ran.err.as_str()), (3, missing));
    let store = "error: STEADFAST_STORE: the store has no scheme; write \"sqlite:FILE\", \
             \"postgres://USER:PASSWORD@HOST/DATABASE\" or \"memory:\"."
        .to_owned();
    let variables = [
        (
            "STEADFAST_ADMIN",
            "0.0.0.0:8081",
            format!("error: STEADFAST_ADMIN: {OPEN_ADMIN}"),
        ),
        ("STEADFAST_STORE", "records", store),
    ];
    for (name, value, message) in variables {
        let mut command = folder.program(&["gateway", "--to", "http://h"]);
        command.env(name, value);
        let ran = finish(command);
        assert_eq!((ran.code, ran.err), (3, format!("{message}\n")));
        assert_eq!(folder.names(), [""; 0]);
    }
}

#[test]
fn a_port_in_use_is_named_by_its_setting_and_nothing_listens_on_the_other() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = holder.local_addr().expect("its address").to_string();
    for setting in ["listen", "admin"] {
        let folder = Folder::new();
        let flag = format!("--{setting}");
        let others = ADDRESSES.chunks(2).filter(|pair| pair[0] != flag);
        let mut words = vec!["gateway", "--to", "http://h", &flag, &address];
        words.extend(others.flatten());
        let ran = folder.run(&words);
        let message = format!(
            "error: {setting} = \"{address}\": cannot listen there (Address already in use (os \
             error 98)): another process listens there; stop it or choose another port"
        );
        assert_eq!(
            (ran.code, ran.err.lines().last()),
            (3, Some(message.as_str()))
        );
        assert!(!ran.err.contains("steadfast listens"), "{ran:?}");
    }
    let folder = Folder::new();
    let words = [
        "gateway", "--to", "http://h", "--listen", &address, "--admin", &address,
    ];
    let message = format!(
        "error: --admin: `{address}` is the `listen` address, too; give one of them another \
         port.\n"
    );
    let ran = folder.run(&words);
    assert_eq!((ran.code, ran.err), (2, message));
}
