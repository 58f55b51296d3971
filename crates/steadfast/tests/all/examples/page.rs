//! docs/library.md shows the examples as they are.

use std::fs;
use std::path::Path;

// rule: the-page-shows-the-examples
#[test]
fn the_code_in_the_library_page_stands_in_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file");
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let examples = [
        "examples/axum_orders.rs",
        "examples/any_tower_service.rs",
        "examples/axum_three_hops.rs",
        "examples/hyper_client.rs",
        "examples/outbox.rs",
        "examples/policy_in_ten_lines.rs",
    ];
    let examples = examples.map(|path| squeezed(&read(path)));
    let page = read("docs/library.md");
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 7, "the page shows its steps");
    for block in blocks {
        let (code, _) = block.split_once("```").expect("an end");
        let shown = squeezed(code);
        let stands = examples.iter().any(|example| example.contains(&shown));
        assert!(stands, "in no example:\n{code}");
    }
}
