use noetl_types::json::parse;

use super::*;

fn loop_items_json(text: &str) -> Result<Json, LoopItemsError> {
    LoopItems::from_value(&parse(text.as_bytes()).unwrap()).map(|items| items.to_json())
}

#[test]
fn loop_items_of_every_type() {
    let rows: Vec<String> = [
        "[1,\"a\",null]", "[]", "3", "0", "-2", "\"a, b\\nc,,\"", "\"[1, 2]\"", "\"\"",
        r#"{"k":1}"#, "{}", "null", "true", "1.5", "9000000", "18446744073709551615",
    ]
    .iter()
    .map(|text| match loop_items_json(text) {
        Ok(items) => format!("{text:<22} {items}"),
        Err(error) => format!("{text:<22} {error}"),
    })
    .collect();
    insta::assert_snapshot!(rows.join("\n"));
}
