use super::*;

#[test]
fn last_statement_is_top_level_and_all_are_named() {
    let rows = StatementResult::Rows {
        columns: vec!["a".into()],
        rows: vec![RowShape::Objects.build_row(&["a".into()], vec![Json::from(1)])],
    };
    assert_eq!(
        results_to_data(&[StatementResult::Count(2), rows], None).to_string(),
        r#"{"columns":["a"],"command_0":{"affected_rows":2,"columns":[],"message":"2 rows affected","row_count":2,"rows":[],"status":"success"},"command_1":{"columns":["a"],"message":"1 row returned","row_count":1,"rows":[{"a":1}],"status":"success"},"row_count":1,"rows":[{"a":1}],"status":"success"}"#
    );
}

#[test]
fn failure_keeps_earlier_results() {
    let error = TaskError::new(TaskErrorKind::DbError, "no such table");
    let data = results_to_data(&[StatementResult::Count(1)], Some(&error));
    assert_eq!(data.get("status"), Some(&Json::from("error")));
    let status = |name: &str| data.get(name).and_then(|entry| entry.get("status")).cloned();
    assert_eq!(status("command_0"), Some(Json::from("success")));
    assert_eq!(status("command_1"), Some(Json::from("error")));
}

#[test]
fn result_size_is_limited() {
    let mut budget = ResultBudget::new(ByteSize::from_bytes(20));
    let row = Json::list([Json::from("0123456")]);
    assert!(budget.reserve_row(&row).is_ok());
    assert_eq!(budget.reserve_row(&row).unwrap_err().kind, TaskErrorKind::Limit);
}
