//! The program `steadfast`.

use std::process::ExitCode;

fn main() -> ExitCode {
    steadfast_cli::run(std::env::args_os())
}
