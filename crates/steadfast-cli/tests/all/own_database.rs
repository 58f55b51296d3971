//! `examples/own_database.py`: a key, its effect and its answer in one transaction. Raced by
//! processes and killed between any two steps, since docs/limits.md says what that gives.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::stage::Folder;
use crate::tidy::{files, root};

/// Where the example stops when it is asked to, in this order.
const STEPS: [&str; 5] = ["begun", "claimed", "effect", "answer", "committed"];

const EXAMPLE: &str = "examples/own_database.py";

/// The example in this folder, over one database.
fn example(folder: &Folder, words: &[&str]) -> Command {
    let mut command = folder.command("python3");
    command.arg(root().join(EXAMPLE)).arg(words[0]);
    command.arg(folder.path("orders.db")).args(&words[1..]);
    command.stdout(Stdio::piped());
    command
}

fn order(folder: &Folder, item: &str) -> Command {
    example(folder, &["order", "tenant-a", "key-1", item])
}

fn printed(mut command: Command) -> String {
    let ran = command.output().expect("python3 is there");
    assert!(ran.status.success(), "{command:?}: {ran:?}");
    let text = String::from_utf8(ran.stdout).expect("the output is UTF-8");
    text.trim().to_owned()
}

fn orders(folder: &Folder) -> String {
    printed(example(folder, &["orders"]))
}

/// A process that stands after one step, until it is let go or killed.
struct Stopped {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Stopped {
    fn after(step: &str, mut command: Command) -> Stopped {
        command.env("STOP_AFTER", step).stdin(Stdio::piped());
        let mut child = command.spawn().expect("python3 is there");
        let mut out = BufReader::new(child.stdout.take().expect("its standard output"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, format!("stopped after {step}\n"));
        Stopped { child, out }
    }

    fn kill(mut self) {
        self.child.kill().expect("it is there to be killed");
        self.child.wait().expect("its status");
    }

    fn go_on(mut self) -> String {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.out.read_to_string(&mut text).expect("its output");
        assert!(self.child.wait().expect("its status").success());
        text.trim().to_owned()
    }
}

#[test]
fn killed_after_any_step_effect_and_answer_are_both_there_or_neither() {
    for step in STEPS {
        let folder = Folder::new();
        Stopped::after(step, order(&folder, "book")).kill();
        let committed = step == "committed";
        assert_eq!(orders(&folder), if committed { "1" } else { "0" }, "{step}");
        let again = printed(order(&folder, "book"));
        let how = if committed { "replayed" } else { "executed" };
        assert_eq!(
            again,
            format!("{how} 201 {{\"id\": 1, \"item\": \"book\"}}")
        );
        assert_eq!(orders(&folder), "1", "{step}");
    }
}

#[test]
fn of_processes_that_race_under_one_key_one_executes_and_all_give_its_answer() {
    let folder = Folder::new();
    let first = Stopped::after("effect", order(&folder, "book"));
    let start = |_| order(&folder, "book").spawn().expect("python3 is there");
    let others: Vec<Child> = (0..6).map(start).collect();
    let answer = "201 {\"id\": 1, \"item\": \"book\"}";
    assert_eq!(first.go_on(), format!("executed {answer}"));
    for other in others {
        let ran = other.wait_with_output().expect("its output");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(said, format!("replayed {answer}\n"));
    }
    assert_eq!(orders(&folder), "1");
}

#[test]
fn a_process_that_waits_for_one_that_is_killed_executes_in_its_place() {
    let folder = Folder::new();
    let first = Stopped::after("answer", order(&folder, "book"));
    let second = order(&folder, "book").spawn().expect("python3 is there");
    first.kill();
    let ran = second.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.starts_with("executed 201 "), "{said}");
    assert_eq!(orders(&folder), "1");
}

#[test]
fn another_request_under_the_key_is_refused_and_another_tenant_s_is_its_own() {
    let folder = Folder::new();
    printed(order(&folder, "book"));
    let other = printed(order(&folder, "pen"));
    assert!(other.starts_with("replayed 422 "), "{other}");
    let stranger = printed(example(&folder, &["order", "tenant-b", "key-1", "book"]));
    assert!(stranger.starts_with("executed 201 "), "{stranger}");
    assert_eq!(orders(&folder), "2");
}

#[test]
fn a_service_that_keeps_the_highest_fence_refuses_a_stale_attempt() {
    let folder = Folder::new();
    let table = [
        ("key-1", "10", "accepted"),
        ("key-1", "11", "accepted"),
        ("key-1", "10", "stale"),
        ("key-1", "11", "stale"),
        ("key-2", "5", "accepted"),
        ("key-1", "12", "accepted"),
    ];
    for (key, fence, expected) in table {
        let said = printed(example(&folder, &["fence", key, fence]));
        assert_eq!(said, expected, "{key} {fence}");
    }
}

/// Statements of the document, in the form that this example runs.
#[test]
fn the_sql_in_the_document_is_what_the_example_runs() {
    let files = files();
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        &file.expect("the file is there").text
    };
    let (page, example) = (text("docs/limits.md"), text(EXAMPLE));
    let mut lines = page.lines();
    let mut statements = 0;
    while lines.by_ref().any(|line| line == "```sql") {
        let block = lines.by_ref().take_while(|line| *line != "```");
        let block: Vec<&str> = block.collect();
        for statement in block.join("\n").split(';').map(str::trim) {
            assert!(example.contains(statement), "not run: {statement}");
            statements += usize::from(!statement.is_empty());
        }
    }
    assert_eq!(statements, 8, "the blocks were read");
}
