//! The `noetl` command.

use std::process::ExitCode;

/// What is made by one thread is let go by another, a page of events at a time: there the allocator of
/// the C library costs about a quarter of a replay.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all, while there is one thread: this process may be about to wall itself in.
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(code) = noetl_tools::walls::launch(&args) {
        return ExitCode::from(code);
    }
    noetl_cli::with_process_io(|io| noetl_cli::run(std::env::args_os(), io)).into()
}
