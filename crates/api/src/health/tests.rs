use super::*;

#[test]
fn one_failed_check_fails_readiness() {
    let ready =
        ReadinessResponse::from_checks([("store", Ok(())), ("machine_id", Err("lost".into()))]);
    assert_eq!(
        serde_json::to_string(&ready).unwrap(),
        r#"{"status":"failed","checks":{"machine_id":"failed","store":"ok"},"reasons":{"machine_id":"lost"}}"#
    );
    assert_eq!(
        serde_json::to_string(&ready.without_reasons()).unwrap(),
        r#"{"status":"failed","checks":{"machine_id":"failed","store":"ok"}}"#
    );
    assert_eq!(ReadinessResponse::from_checks([("store", Ok(()))]).status, HealthStatus::Ok);
}
