//! Where lines wait for the one thread that writes them.

use std::io::{self, Write};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast::clock;

/// Bytes that wait to be written; what does not fit is dropped. Some 4,000 lines: what a reader
/// that pauses for a moment leaves behind at thousands of requests a second.
const WAITING_BYTES: usize = 1024 * 1024;

/// How long lines gather before they are written together: a write for each would cost requests
/// more than the lines do, and no person sees the delay.
const GATHER: Duration = Duration::from_millis(5);

/// How long the end of the process waits for the last lines to be taken.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Lines that this process dropped.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines of the log that this process has dropped so far.
pub fn lines_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Lines that wait, and the thread's end.
pub(super) struct Sink {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// Disconnected once the thread has written all.
    written: Mutex<Receiver<()>>,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    dropped: u64,
    ends: bool,
}

impl Sink {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Arc<Sink>> {
        let (open, written) = channel();
        let sink = Arc::new(Sink {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            written: Mutex::new(written),
        });
        let writing = Arc::clone(&sink);
        std::thread::Builder::new()
            .name("steadfast-log".to_owned())
            .spawn(move || writing.write_on(out, open))?;
        Ok(sink)
    }

    /// Leaves whole lines to be written; drops them where there is no room. Never waits for the
    /// reader.
    pub(super) fn push(&self, lines: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.bytes.len() + lines.len() > WAITING_BYTES {
            waiting.dropped += 1;
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(lines);
        drop(waiting);
        if was_empty {
            self.filled.notify_one();
        }
    }

    /// Ends the thread once all is written, and waits for that, but not for a reader who does not
    /// read.
    pub(super) fn end(&self) {
        self.waiting().ends = true;
        self.filled.notify_one();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = written.recv_timeout(LAST_LINES);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_on(&self, mut out: impl Write, open: Sender<()>) {
        let mut taken = Vec::new();
        while let Some(dropped) = self.take(&mut taken) {
            // That nobody reads any more stops nothing.
            let _ = out.write_all(&taken).and_then(|()| out.flush());
            taken.clear();
            if dropped > 0 {
                tracing::warn!(
                    lines = dropped,
                    "lines of the log were dropped: nobody read them fast enough"
                );
            }
        }
        drop(open);
    }

    /// Waits for lines and takes them all; how many found no room meanwhile. `None` at the end.
    fn take(&self, taken: &mut Vec<u8>) -> Option<u64> {
        let mut waiting = self.waiting();
        while waiting.bytes.is_empty() {
            if waiting.ends {
                return None;
            }
            let woken = self.filled.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.ends {
            drop(waiting);
            clock::pause(GATHER);
            waiting = self.waiting();
        }
        mem::swap(&mut waiting.bytes, taken);
        Some(mem::take(&mut waiting.dropped))
    }
}

/// One event's line on its way to the thread.
pub(super) struct Line(pub(super) Arc<Sink>);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// A reader that takes nothing until it is told to.
    struct Slow {
        go: Receiver<()>,
        read: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Told to once, it reads on.
            let _ = self.go.recv();
            let _ = self.read.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // rule: a-full-log-drops-and-counts
    #[test]
    fn lines_without_room_are_dropped_counted_and_do_not_wait() {
        let ((start, go), (read, reader)) = (sync_channel(0), channel());
        let sink = Sink::start(Slow { go, read }).expect("a thread");
        let line = [b'a'; 1023].iter().chain(b"\n");
        let line: Vec<u8> = line.copied().collect();
        let before = lines_dropped();
        // At most one batch is with the reader while another fills up.
        for _ in 0..3 * WAITING_BYTES / line.len() {
            sink.push(&line);
        }
        assert!(lines_dropped() - before >= (WAITING_BYTES / line.len()) as u64);
        drop(start);
        sink.end();
        let bytes: usize = reader.try_iter().map(|bytes| bytes.len()).sum();
        assert!(bytes > 0 && bytes.is_multiple_of(line.len()), "whole lines");
    }
}
