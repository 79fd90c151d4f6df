use super::*;

#[test]
fn function_definitions_are_complete() {
    for function in [&*APPEND, &*APPEND_WITH_COORDINATION] {
        let DatabaseFunction { name, definition, .. } = function;
        assert!(definition.contains(&format!("CREATE FUNCTION {name}(")));
        let is_placeholder =
            |token: &str| token.starts_with(['{', '(']) && token.contains("_columns}");
        let unreplaced: Vec<_> = definition
            .split_whitespace()
            .filter(|token| {
                is_placeholder(token) || token.starts_with("--if") || token.starts_with("--end")
            })
            .collect();
        assert!(unreplaced.is_empty(), "{unreplaced:?}");
    }
}

#[test]
fn plain_append_writes_no_coordination_tables() {
    for table in [&WAIT, &FOLLOW_UP, &SLOT, &CACHE, &IDEMPOTENCY, &DEDUP] {
        let insert = format!("INSERT INTO {} (", table.name);
        assert!(!APPEND.definition.contains(&insert), "{insert}");
        assert!(APPEND_WITH_COORDINATION.definition.contains(&insert), "{insert}");
    }
}
