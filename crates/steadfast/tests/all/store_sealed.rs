//! Over every store, sealed rows keep the contract, and nothing of an answer is on the disk.

use std::path::Path;
use std::sync::Arc;

use steadfast::core::record::{Answer, Record, StoredAnswer};
use steadfast::store::conformance::{self, rows};
use steadfast::store::memory::Memory;
use steadfast::store::sealed::{KEY_BYTES, Keys, Sealed, SealingKey};
use steadfast::store::sqlite::Sqlite;
use steadfast::store::{Op, OpEnd, Store};

fn keys() -> Keys {
    let key = |id, byte| SealingKey::new(id, &[byte; KEY_BYTES]).expect("a key");
    Keys::new(vec![key("new", 2), key("old", 1)]).expect("keys")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_memory_keeps_the_store_contract() {
    conformance::exercise(|| Sealed::new(Arc::new(Memory::new()), keys())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_file_keeps_the_store_contract() {
    let dir = tempfile::tempdir().expect("a directory");
    let count = std::cell::Cell::new(0);
    conformance::exercise(|| {
        count.set(count.get() + 1);
        let path = dir.path().join(format!("{}.db", count.get()));
        let store = Sqlite::open(path).expect("a new store");
        Sealed::new(Arc::new(store), keys())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_keys_keeps_the_contract() {
    conformance::exercise(|| Sealed::new(Arc::new(Memory::new()), Keys::default())).await;
}

const BODY: &[u8] = b"charged to the card of a person who is not named here";
const HEADER: &str = "receipt-of-a-person";

fn row(n: u64) -> Record {
    let answer = || {
        let mut headers = http::HeaderMap::new();
        headers.insert("x-receipt", http::HeaderValue::from_static(HEADER));
        Answer::Stored(StoredAnswer {
            status: http::StatusCode::CREATED,
            headers,
            body: bytes::Bytes::from_static(BODY),
        })
    };
    let mut row = rows::completed(n);
    row.standing.answer = answer();
    row.before = Some(Box::new(row.standing.clone()));
    row
}

/// How often `text` stands in the files of a folder: the database, its log, and whatever is beside.
fn found(folder: &Path, text: &[u8]) -> usize {
    let files = std::fs::read_dir(folder).expect("the folder");
    let count = |entry: std::io::Result<std::fs::DirEntry>| {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let windows = bytes.windows(text.len());
        windows.filter(|window| *window == text).count()
    };
    files.map(count).sum()
}

// rule: nothing-of-a-sealed-answer-is-on-the-disk
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_sealed_answer_is_on_the_disk() {
    for (keys, is_plain) in [(keys(), false), (Keys::default(), true)] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Sqlite::open(dir.path().join("s.db")).expect("a store");
        let store = Sealed::new(Arc::new(store), keys);
        for n in 0..5 {
            let Ok(OpEnd::Done(Some(stands))) = store.apply(Op::Insert(Box::new(row(n)))).await
            else {
                panic!("it is inserted");
            };
            let mut next = (*stands).clone();
            next.version += 1;
            let op = Op::Replace {
                next: Box::new(next),
                guard: stands.guard(),
                draw: true,
            };
            assert!(matches!(store.apply(op).await, Ok(OpEnd::Done(Some(_)))));
        }
        for text in [BODY, HEADER.as_bytes(), b"x-receipt"] {
            assert_eq!(found(dir.path(), text) > 0, is_plain);
        }
        drop(store);
        for text in [BODY, HEADER.as_bytes(), b"x-receipt"] {
            assert_eq!(found(dir.path(), text) > 0, is_plain);
        }
    }
}
