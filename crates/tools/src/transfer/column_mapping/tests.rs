use super::*;
use crate::config::Config;
use noetl_types::json::parse;

fn split_names(names: &str) -> Vec<Arc<str>> {
    names.split(' ').map(Arc::from).collect()
}

fn with_plan<T>(system: &str, extra: &str, test: impl FnOnce(&TransferPlan<'_>) -> T) -> T {
    let text = format!(
        r#"{{"source": {{"type": "http"}}, "target": {{"type": "{system}", "table": "t"}}{extra}}}"#
    );
    let config = parse(text.as_bytes()).unwrap();
    test(&TransferPlan::from_config(Config(config.as_map().unwrap())).unwrap())
}

fn build_mapping(extra: &str, source: &str, target: Option<&str>) -> Result<ColumnMapping, String> {
    let target = target.map(split_names);
    with_plan("sqlite", extra, |plan| {
        ColumnMapping::from_plan(plan, &split_names(source), target.as_deref())
            .map_err(|error| error.message.to_string())
    })
}

#[test]
fn reads_mappings_in_both_directions() {
    let expected =
        ColumnMapping { source_indexes: vec![0, 2], target_names: split_names("code rate") };
    let forward = r#", "mapping": {"value": "rate", "currency": "code"}"#;
    assert_eq!(build_mapping(forward, "currency x value", None).unwrap(), expected);
    let backward = r#", "mapping": {"rate": "value", "code": "currency"}"#;
    assert_eq!(build_mapping(backward, "currency x value", None).unwrap(), expected);
    let wrong = r#", "mapping": {"price": "rate"}"#;
    assert_eq!(
        build_mapping(wrong, "currency value", None).unwrap_err(),
        "the source has no column 'price'; its columns are currency, value"
    );
}

#[test]
fn matches_columns_to_table() {
    let mapping = build_mapping("", "id name", Some("ID name extra")).unwrap();
    assert_eq!(mapping.target_names, split_names("ID name"));
    assert_eq!(
        build_mapping("", "id oops", Some("id name")).unwrap_err(),
        "the target has no column 'oops'; its columns are id, name"
    );
    let mapping = build_mapping(r#", "columns": ["b", "a"]"#, "a b", None).unwrap();
    assert_eq!(mapping.source_indexes, [1, 0]);
}

#[test]
fn builds_statement_of_each_mode() {
    let columns = split_names("id a\"b");
    let keys = split_names("ID");
    let insert = |system: &str, mode: &str, columns: &[Arc<str>], keys: &[Arc<str>]| {
        let extra = format!(r#", "mode": "{mode}""#);
        with_plan(system, &extra, |plan| build_insert(plan, "\"t\"", columns, keys))
    };
    assert_eq!(
        insert("postgres", "append", &columns, &keys).unwrap(),
        r#"INSERT INTO "t" ("id", "a""b") VALUES ($1, $2)"#
    );
    assert_eq!(
        insert("sqlite", "upsert", &columns, &keys).unwrap(),
        r#"INSERT INTO "t" ("id", "a""b") VALUES (?1, ?2) ON CONFLICT ("id") DO UPDATE SET "a""b" = excluded."a""b""#
    );
    let only = insert("sqlite", "upsert", &split_names("id"), &keys).unwrap();
    assert!(only.ends_with("DO NOTHING"), "{only}");
    assert!(insert("sqlite", "upsert", &columns, &[]).is_err());
}
