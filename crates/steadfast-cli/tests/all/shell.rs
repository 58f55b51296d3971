//! What a shell and a manual are given: completions that bash takes, pages without a warning, and
//! help that says what to do next.

use std::path::Path;

use crate::stage::{Folder, finish};

/// What bash offers for the last of these words, with the printed script sourced.
fn completed(folder: &Folder, words: &[&str]) -> Vec<String> {
    let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let ask = format!(
        "source ./steadfast.bash\nCOMP_WORDS=({})\nCOMP_CWORD={}\n\
         _steadfast steadfast {} {}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        list.join(" "),
        words.len() - 1,
        list[list.len() - 1],
        list[list.len() - 2],
    );
    let mut bash = folder.command("bash");
    bash.args(["--norc", "-euc", &ask]);
    let ran = finish(bash);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_flags_with_the_printed_script() {
    let folder = Folder::new();
    let script = folder.run(&["completions", "bash"]);
    assert_eq!((script.code, script.err.as_str()), (0, ""));
    assert!(
        script.out.contains("complete -F _steadfast"),
        "bash is told"
    );
    folder.write("steadfast.bash", &script.out);
    assert_eq!(completed(&folder, &["steadfast", "ke"]), ["keys"]);
    assert_eq!(completed(&folder, &["steadfast", "keys", "sw"]), ["sweep"]);
    assert_eq!(
        completed(&folder, &["steadfast", "keys", "list", "--ol"]),
        ["--older-than"]
    );
    assert_eq!(
        completed(&folder, &["steadfast", "completions", "fi"]),
        ["fish"]
    );
}

#[test]
fn each_shell_is_given_a_script_and_another_word_is_wrong_usage() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = folder.run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains("sweep"), "{shell}");
    }
    assert_eq!(folder.run(&["completions", "tcsh"]).code, 2);
}

fn is_page_without_warning(folder: &Folder, page: &Path) {
    let mut groff = folder.command("groff");
    groff.args(["-man", "-Tutf8", "-ww"]).arg(page);
    let ran = finish(groff);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", page.display());
    assert!(ran.out.len() > 100, "{} is empty", page.display());
}

#[test]
fn the_manual_has_a_page_for_each_command_and_no_page_has_a_warning() {
    let folder = Folder::new();
    let whole = folder.run(&["man"]);
    assert_eq!((whole.code, whole.err.as_str()), (0, ""));
    assert!(whole.out.starts_with(".ie"), "{:.40}", whole.out);
    folder.write("whole.1", &whole.out);
    is_page_without_warning(&folder, &folder.path("whole.1"));
    let ran = folder.run(&["man", "--dir", "pages"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let pages = std::fs::read_dir(folder.path("pages")).expect("the folder is made");
    let mut names = Vec::new();
    for page in pages {
        let page = page.expect("an entry").path();
        is_page_without_warning(&folder, &page);
        names.push(
            page.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned(),
        );
    }
    for name in [
        "steadfast.1",
        "steadfast-keys-sweep.1",
        "steadfast-config-init.1",
    ] {
        assert!(names.iter().any(|own| own == name), "{name} in {names:?}");
    }
}

#[test]
fn pages_that_cannot_be_written_are_refused_with_the_next_step() {
    let folder = Folder::new();
    folder.write("taken", "");
    let ran = folder.run(&["man", "-o", "taken"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    let begins = ran
        .err
        .starts_with("error: --dir: taken cannot be written: ");
    assert!(begins && ran.err.contains("; correct the path"), "{ran:?}");
}

#[test]
fn without_a_command_the_help_names_the_first_step_and_the_code_is_2() {
    let folder = Folder::new();
    let ran = folder.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let first = "Begin with: steadfast gateway --to http://127.0.0.1:3000\n";
    assert!(ran.err.contains(first), "{}", ran.err);
    let long = folder.run(&["--help"]);
    assert_eq!((long.code, long.err.as_str()), (0, ""));
    for code in [
        "0  done",
        "1  an act",
        "2  the command line",
        "3  the configuration",
    ] {
        assert!(long.out.contains(code), "{code} in {}", long.out);
    }
}

#[test]
fn every_command_s_help_says_what_its_flags_take() {
    let folder = Folder::new();
    let table: [(&[&str], &[&str]); 6] = [
        (
            &["gateway"],
            &["127.0.0.1:8080", "127.0.0.1:8081", "sqlite:steadfast.db"],
        ),
        (
            &["keys", "list"],
            &["10m", "default: 100", "STEADFAST_STORE", "Example"],
        ),
        (
            &["keys", "resolve"],
            &["200 to 599", "@FILE", "Content-Type", "Example"],
        ),
        (&["keys", "sweep"], &["asks first", "Example"]),
        (&["keys", "stats"], &["default: 10"]),
        (
            &["config", "init"],
            &["standard output", "--force", "Example"],
        ),
    ];
    for (command, parts) in table {
        let help = folder.run(&[command, &["--help"]].concat()).out;
        for part in parts {
            assert!(help.contains(part), "{part} in {help}");
        }
    }
}
