//! The `noetl` command.

use std::process::ExitCode;

/// Pages of events are allocated by one thread and freed by another. With the allocator of the C
/// library, this costs about a quarter of the time of a replay.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all, while there is only one thread: this process may be the sandbox launcher.
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(code) = noetl_tools::sandbox::run_launcher(&args) {
        return ExitCode::from(code);
    }
    noetl_cli::with_process_io(|io| noetl_cli::run(std::env::args_os(), io)).into()
}
