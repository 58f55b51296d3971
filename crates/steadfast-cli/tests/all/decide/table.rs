//! The table of docs/retries.md: each row is a question, and its answer is the program's.

use std::path::Path;

use super::told;

// rule: the-table-of-decisions-is-true
#[test]
fn each_row_of_the_documents_table_is_what_explain_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/retries.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let mut rows = 0;
    for line in document.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(question) = cells.get(2).and_then(|cell| cell.strip_prefix("`--method")) else {
            continue;
        };
        assert_eq!(cells.len(), 11, "a cell for each of them: {line}");
        let words = format!("explain --method{}", question.trim_end_matches('`'));
        let got = told(&words);
        assert_eq!(got["decision"], cells[3], "{line}\n{got}");
        rows += 1;
    }
    assert!(rows > 25, "the table is found");
}
