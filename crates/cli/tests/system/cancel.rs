//! Cancelling stops what runs.

use noetl_api::execution::CancelRequest;
use noetl_types::{EventType, ExecutionStatus, Json};

use crate::house::{Caller, House, until};
use crate::logs::{count, sound};
use crate::process::lives;

const FOR_EVER: &str = r#"workload: { witness: /dev/null }
workflow:
  - step: start
    tool: { kind: shell, command: "sleep 1000 & echo $! > {{ workload.witness }}; wait" }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn cancel_kills_the_running_process() {
    let house = House::on_sqlite();
    let server = house.server();
    let caller = Caller::of(&server);
    caller.register("for_ever", FOR_EVER).await;
    let _worker = house.worker(&server, "w1");
    let witness = house.witness();
    let payload = Json::object([("witness", Json::from(witness.display().to_string()))]);
    let run = caller.start("for_ever", payload).await.expect("started");
    until("the process runs", || lives(&witness)).await;
    let cancelled = caller.0.cancel(run, &CancelRequest::default()).await;
    assert_eq!(cancelled.expect("cancelled").cancelled_executions, [run]);
    assert_eq!(caller.status(run).await.status, ExecutionStatus::Cancelled);
    until("the process is gone", || !lives(&witness)).await;
    server.kill();
    let log = sound(&house, run).await;
    assert_eq!(count(&log, EventType::CommandCancelled), 1);
}
