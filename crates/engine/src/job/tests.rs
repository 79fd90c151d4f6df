use super::*;

#[test]
fn execution_uuid_is_stable() {
    let job = job_variable(ExecutionId::new(1).unwrap());
    let uuid = job.get("uuid").and_then(Json::as_str);
    assert_eq!(uuid, Some("8b797a43-e45a-8c1d-8a3e-2d6aef5b2d62"));
}
