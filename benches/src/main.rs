//! The parts that `benches/run` starts and times: one subcommand each, one line a measurement.
//!
//! A line is round, name and value, with tabs between them; `report` reads them all back and says
//! which goals hold. Nothing here is part of the product, and nothing here decides for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

mod buffered;
mod decision;
mod drive;
mod expiry;
mod fingerprint;
mod floor;
mod frames;
mod goals;
mod growth;
mod log;
mod measured;
mod pairs;
mod postgres;
mod prime;
mod report;
mod rows;
mod turns;
mod upstream;

/// What a part is told by its caller.
#[derive(Parser)]
#[command(name = "steadfast-bench", about = "The parts of benches/run")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Serves 201 with 200 bytes of JSON on one thread, and counts; GET /count tells the number.
    Upstream {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Passes requests on, both bodies collected: the least that a buffering proxy has to do.
    Buffered {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        to: SocketAddr,
    },
    /// Sends one keyed POST for each key of a file; all must be 201.
    Prime {
        #[arg(long)]
        to: SocketAddr,
        #[arg(long)]
        keys: PathBuf,
    },
    /// Writes so many random keys, one a line.
    Keys {
        #[arg(long)]
        count: usize,
    },
    /// Writes a JSON body of so many bytes.
    Body {
        #[arg(long)]
        bytes: usize,
    },
    /// Writes so many ports of loopback that are free now.
    Ports {
        #[arg(long)]
        count: usize,
    },
    /// Appends of 4 KiB, each synced, one after the other: what the disk allows.
    Floor {
        #[command(flatten)]
        window: Window,
        #[arg(long)]
        dir: PathBuf,
    },
    /// Durable pairs through an append log that commits in groups: the reference.
    Log {
        #[command(flatten)]
        window: Window,
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 64)]
        waiters: usize,
    },
    /// Durable pairs through the SQLite store.
    Store {
        #[command(flatten)]
        window: Window,
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 64)]
        waiters: usize,
    },
    /// Durable pairs through the PostgreSQL store, in a database of its own.
    Postgres {
        #[command(flatten)]
        window: Window,
        /// A database that may be made new; the store's tables in it are lost.
        #[arg(long)]
        url: String,
        #[arg(long, default_value_t = 64)]
        waiters: usize,
    },
    /// Fingerprints, beside the least that one has to do.
    Fingerprint {
        #[command(flatten)]
        window: Window,
    },
    /// Client decisions and the client layer, beside tower's parts.
    Decision {
        #[command(flatten)]
        window: Window,
    },
    /// Pairs while a backlog of expired records is removed, and in between.
    Expiry {
        #[command(flatten)]
        window: Window,
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        #[arg(long, default_value_t = 500_000)]
        records: u64,
    },
    /// Pairs on a store of so many records, and on one of ten times as many.
    Growth {
        #[command(flatten)]
        window: Window,
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        #[arg(long, default_value_t = 100_000)]
        records: u64,
    },
    /// Reads measurements from standard input, writes the table of goals.
    Report {
        /// As tables for a document.
        #[arg(long)]
        markdown: bool,
        /// Exit code 1 where a goal is missed by more than a quarter.
        #[arg(long)]
        check: bool,
    },
}

/// One window of measuring.
#[derive(clap::Args, Clone, Copy)]
struct Window {
    /// Which round it is.
    #[arg(long, default_value_t = 1)]
    round: u32,
    /// How long it lasts.
    #[arg(long, default_value = "2000")]
    millis: u64,
}

impl Window {
    fn length(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

/// What went wrong, for a person.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> std::process::ExitCode {
    match perform(Arguments::parse().part) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("steadfast-bench: {failure}");
            let mut cause = failure.source();
            while let Some(deeper) = cause {
                eprintln!("  because: {deeper}");
                cause = deeper.source();
            }
            std::process::ExitCode::FAILURE
        }
    }
}

fn perform(part: Part) -> Result<std::process::ExitCode, Failure> {
    match part {
        Part::Upstream { listen } => upstream::serve(listen)?,
        Part::Buffered { listen, to } => buffered::serve(listen, to)?,
        Part::Prime { to, keys } => prime::prime(to, &keys)?,
        Part::Keys { count } => rows::write_keys(count),
        Part::Body { bytes } => print!("{}", rows::json_body(bytes)),
        Part::Ports { count } => prime::ports(count)?,
        Part::Floor { window, dir } => floor::measure(window, &dir)?,
        Part::Log {
            window,
            dir,
            waiters,
        } => log::measure(window, &dir, waiters)?,
        Part::Store {
            window,
            dir,
            waiters,
        } => pairs::measure(window, &dir, waiters)?,
        Part::Postgres {
            window,
            url,
            waiters,
        } => postgres::measure(window, &url, waiters)?,
        Part::Fingerprint { window } => fingerprint::measure(window)?,
        Part::Decision { window } => decision::measure(window)?,
        Part::Expiry {
            window,
            dir,
            rounds,
            records,
        } => expiry::measure(window, &dir, rounds, records)?,
        Part::Growth {
            window,
            dir,
            rounds,
            records,
        } => growth::measure(window, &dir, rounds, records)?,
        Part::Report { markdown, check } => return report::report(markdown, check),
    }
    Ok(std::process::ExitCode::SUCCESS)
}

/// The runtime that the gateway has: a thread a core.
fn on_all_cores<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
