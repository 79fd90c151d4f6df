//! The `noetl-bench` command.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser as _;
use noetl_bench::args::Args;
use noetl_bench::{BenchDocument, BenchError, measure_all, render_report};

/// Allocator of `noetl`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If stderr is closed, only the exit code is left to report the error.
            let _ = writeln!(std::io::stderr(), "error: {}", error.full_message());
            ExitCode::FAILURE
        }
    }
}

/// Measures or shows a document. Returns false if it contains errors.
async fn run(args: &Args) -> Result<bool, BenchError> {
    let document = match &args.show {
        Some(file) => BenchDocument::read(file)?,
        None => measure_and_save(args).await?,
    };
    let text = render_report(&document);
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|source| BenchError::Io { what: "standard output".to_owned(), source })?;
    Ok(document.all_errors().is_empty())
}

async fn measure_and_save(args: &Args) -> Result<BenchDocument, BenchError> {
    if cfg!(debug_assertions) && !args.quick {
        let text = "figures of a debug build mean nothing; use `cargo run --release -p \
                    noetl-bench`, or --quick";
        return Err(BenchError::Harness(text.to_owned()));
    }
    let noetl = match &args.noetl {
        Some(path) => Some(path.clone()),
        None if args.needs_noetl() => Some(build_noetl()?),
        None => None,
    };
    let document = measure_all(&args.to_plan(noetl.as_deref())).await;
    if let Some(file) = &args.json {
        document.write(file)?;
    }
    Ok(document)
}

/// Builds the product, and returns the path of the binary as reported by Cargo.
fn build_noetl() -> Result<PathBuf, BenchError> {
    let failed = |source| BenchError::Io { what: "cargo cannot be run".to_owned(), source };
    let output = Command::new("cargo")
        .args(["build", "--release", "--package", "noetl-cli"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let binary = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_noetl = message["target"]["name"] == "noetl";
        let path = message["executable"].as_str()?;
        is_noetl.then(|| PathBuf::from(path))
    });
    match binary {
        Some(binary) if output.status.success() => Ok(binary),
        Some(_) | None => Err(BenchError::Harness("noetl-cli cannot be built".to_owned())),
    }
}
