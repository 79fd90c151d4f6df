//! The `noetl` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    noetl_cli::with_process_io(|io| noetl_cli::run(std::env::args_os(), io)).into()
}
