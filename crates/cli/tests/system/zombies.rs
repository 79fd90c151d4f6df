//! A worker that sleeps past its lease and wakes up again.

use noetl_types::{EventType, Json};

use crate::house::{Caller, House, until};
use crate::logs::{count, sound};

const SLOW: &str = r#"workload: { witness: /dev/null }
workflow:
  - step: start
    tool:
      kind: shell
      command: "echo $NOETL_IDEMPOTENCY_KEY >> {{ workload.witness }}; while [ ! -e {{ workload.witness }}.go ]; do sleep 0.05; done"
"#;

/// The world saw the call twice, under one key; the log has one result, and a note of the other.
/// Hole I4.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_wakes_up_too_late_is_refused() {
    let house = House::on_postgres();
    let server = house.server();
    let caller = Caller::of(&server);
    caller.register("slow", SLOW).await;
    let zombie = house.worker(&server, "zombie");
    let witness = house.witness().display().to_string();
    let payload = Json::object([("witness", Json::from(witness))]);
    let run = caller.start("slow", payload).await.expect("started");
    until("the call is made", || house.witnessed().len() == 1).await;
    zombie.signal("STOP");
    let _second = house.worker(&server, "second");
    until("the call is made again", || house.witnessed().len() == 2).await;
    let witnessed = house.witnessed();
    assert_eq!(witnessed[0], witnessed[1], "the key outlives the worker");
    let go = format!("{}.go", house.witness().display());
    std::fs::write(go, "").expect("a file");
    zombie.signal("CONT");
    caller.completed(&[run]).await;
    server.kill();
    let log = sound(&house, run).await;
    assert_eq!(count(&log, EventType::CommandExpired), 1);
    assert_eq!(count(&log, EventType::CommandCompleted), 1);
}
