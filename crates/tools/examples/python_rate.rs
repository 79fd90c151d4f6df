//! Measures the cost of a Python step: a warm call compared with a fresh interpreter.
//!
//! ```sh
//! cargo run --release -p noetl-tools --example python_rate
//! ```

use std::error::Error;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, JsonMap};
use tokio::task::JoinSet;
use tokio::time::Instant;

const CALLS: u32 = 5_000;
const STARTS: u32 = 40;
const CODE: &str = "def main(order, rate):
    total = sum(line['price'] * line['count'] for line in order['lines'])
    return {'total': round(total * (1 + rate), 2), 'lines': len(order['lines'])}
";

fn sample_call() -> ToolCall {
    let line = Json::object([("price", Json::from(3)), ("count", Json::from(2))]);
    let order = Json::object([("lines", Json::list(vec![line; 10]))]);
    let rate = Json::from_f64(0.19).unwrap_or_default();
    ToolCall {
        kind: ToolKind::Python,
        config: JsonMap::from([("code".into(), Json::from(CODE))]),
        input: JsonMap::from([("order".into(), order), ("rate".into(), rate)]),
        execution_id: "1".into(),
        command: String::new(),
        step: "price".into(),
        label: "price".into(),
        idempotency_key: "1:1:price:1".into(),
        attempt: 1,
        timeout: Duration::from_mins(1),
        context: Json::empty_map(),
        variables: Json::Null,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    let mut settings = Settings::default().with_environment(std::env::vars(), &[]);
    if let Some(interpreter) = std::env::args().nth(1) {
        settings.python.interpreter = interpreter;
    }
    settings.python.pool_size = 4;
    let interpreter = settings.python.interpreter.clone();
    let toolbox = std::sync::Arc::new(Toolbox::new(settings));

    let started = Instant::now();
    run_call(&toolbox).await?;
    writeln!(out, "first call, with the start: {:?}", started.elapsed())?;

    let mut times = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        run_call(&toolbox).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let percentile = |permille: usize| times[times.len() * permille / 1000];
    let mean = times.iter().sum::<Duration>() / CALLS;
    writeln!(
        out,
        "warm, one at a time: mean {mean:?}, p50 {:?}, p99 {:?}, p99.9 {:?}",
        percentile(500),
        percentile(990),
        percentile(999)
    )?;

    let started = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let toolbox = std::sync::Arc::clone(&toolbox);
        calls.spawn(async move { run_call(&toolbox).await.map_err(|error| error.to_string()) });
    }
    while let Some(result) = calls.join_next().await {
        result??;
    }
    let each = started.elapsed() / CALLS;
    writeln!(out, "warm, four interpreters at once: {each:?} a call")?;

    let started = Instant::now();
    for _ in 0..STARTS {
        let status = tokio::process::Command::new(&interpreter)
            .args(["-c", "import json, sys; print(json.dumps(1))"])
            .stdout(Stdio::null())
            .status()
            .await?;
        if !status.success() {
            return Err("the interpreter failed".into());
        }
    }
    let each = started.elapsed() / STARTS;
    writeln!(out, "a fresh interpreter that only imports json: {each:?}")?;
    toolbox.shutdown().await;
    Ok(())
}

async fn run_call(toolbox: &Toolbox) -> Result<(), Box<dyn Error>> {
    let outcome = toolbox.call(sample_call(), CancellationToken::new()).await;
    match outcome.error {
        None => Ok(()),
        Some(error) => Err(error.message.to_string().into()),
    }
}
