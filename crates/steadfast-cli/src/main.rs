//! The program `steadfast`.

use std::process::ExitCode;

/// The gateway's threads free what other threads allocated, with every request. The system's
/// allocator gives its memory back to the kernel and asks for it anew under such a load
/// (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    steadfast_cli::run(std::env::args_os())
}
