//! The `noetl-bench` command.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser as _;
use noetl_bench::args::Args;
use noetl_bench::{BenchError, Document, measure, render};

/// The one that `noetl` has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Where even that cannot be told, the exit code has to say it.
            let _ = writeln!(std::io::stderr(), "error: {}", error.told());
            ExitCode::FAILURE
        }
    }
}

/// Measures or shows, and says whether everything went well.
async fn run(args: &Args) -> Result<bool, BenchError> {
    let document = match &args.show {
        Some(file) => Document::read(file)?,
        None => measured(args).await?,
    };
    let text = render(&document);
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|source| BenchError::Io {
            what: "standard output".to_owned(),
            source,
        })?;
    Ok(document.errors().is_empty())
}

async fn measured(args: &Args) -> Result<Document, BenchError> {
    if cfg!(debug_assertions) && !args.quick {
        let text = "this is a debug build, which measures nothing: use `cargo run --release -p \
                    noetl-bench`, or --quick";
        return Err(BenchError::Harness(text.to_owned()));
    }
    let noetl = match &args.noetl {
        Some(path) => Some(path.clone()),
        None if args.needs_noetl() => Some(build()?),
        None => None,
    };
    let document = measure(&args.choice(noetl.as_deref())).await;
    if let Some(file) = &args.json {
        document.write(file)?;
    }
    Ok(document)
}

/// Builds the product, and gives the path that Cargo says the binary is at.
fn build() -> Result<PathBuf, BenchError> {
    let failed = |source| BenchError::Io {
        what: "cargo cannot be run".to_owned(),
        source,
    };
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
