//! The page about clients shows lines of the scripts that the tests run, and all of them.

use super::CLIENTS;
use crate::tidy::{File, files};

#[test]
fn what_the_page_shows_of_a_client_is_what_the_tests_run() {
    let files = files();
    let page = files.iter().find(|file| file.path == "docs/clients.md");
    let scripts: Vec<_> = files
        .iter()
        .filter(|file| file.path.starts_with("examples/clients/"))
        .collect();
    assert_eq!(scripts.len(), CLIENTS.len());
    let page = &page.expect("docs/clients.md is there").text;
    let (mut shown, mut blocks) = (0, page.split("\n```").skip(1));
    // A block, and then the text up to the next.
    while let (Some(block), Some(_)) = (blocks.next(), blocks.next()) {
        let (language, lines) = block.split_once('\n').expect("lines in a block");
        if language.contains(" test") {
            continue;
        }
        let run = scripts.iter().any(|script| script.text.contains(lines));
        assert!(run, "in no script of examples/clients: {lines}");
        shown += 1;
    }
    assert_eq!(shown, CLIENTS.len(), "a block a client");
    let named = |script: &&&File| !page.contains(&format!("(../{})", script.path));
    let left_out: Vec<_> = scripts
        .iter()
        .filter(named)
        .map(|script| &script.path)
        .collect();
    assert!(left_out.is_empty(), "not linked: {left_out:?}");
}
