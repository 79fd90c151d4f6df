use noetl_types::json::parse;

use super::*;

fn numbered(params: &str, text: &str) -> String {
    let params = parse(params.as_bytes()).unwrap();
    let params = QueryParams::from_json(Some(&params)).unwrap();
    let statement = params.number_placeholders(text, SqlDialect::Postgres, &mut 0);
    let values: Vec<String> =
        statement.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} [{}]", statement.text, values.join(" "))
}

#[test]
fn placeholders_are_numbered_per_statement() {
    assert_eq!(
        numbered("[5, 6, 7]", "a $3, $1, $3::int, '$2'"),
        "a $1, $2, $1::int, '$2' [params[2]=7 params[0]=5]"
    );
    assert_eq!(
        numbered(r#"{"x": 1, "y": 2}"#, "a :y::int, :x, :y, b[1:2]"),
        "a $1::int, $2, $1, b[1:2] [params.y=2 params.x=1]"
    );
    assert_eq!(numbered("[5]", "a :x, b"), "a :x, b []");
}
