use super::*;

fn secret_fields_text(kind: Option<&str>, credential: &str) -> String {
    let credential = crate::json::parse(credential.as_bytes()).unwrap();
    secret_fields(kind, &credential).to_string()
}

#[test]
fn public_fields_are_not_secret() {
    let fields = r#"{"db_host":"db.example.org","db_name":"analytics","db_password":"p","db_port":5432,"db_user":"reporting","more":"x","type":"postgres"}"#;
    assert_eq!(secret_fields_text(Some("postgres"), fields), r#"{"db_password":"p","more":"x"}"#);
    assert_eq!(secret_fields_text(None, fields), r#"{"db_password":"p","more":"x"}"#);
}

#[test]
fn unknown_fields_are_secret() {
    for (kind, fields) in [
        (Some("basic"), r#"{"host":"h","username":"key-1"}"#),
        (Some("vault"), r#"{"host":"h","user":"u"}"#),
        (None, r#"{"host":"h","user":"u"}"#),
        (None, r#"["a","b"]"#),
        (Some("postgres"), r#"{"host":"postgres://u:p@h","user":["u"]}"#),
    ] {
        assert_eq!(secret_fields_text(kind, fields), fields);
    }
}
