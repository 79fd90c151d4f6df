use super::*;

#[test]
fn plain_text_becomes_the_typed_secret() {
    for (text, kind, expected) in [
        ("abc", "secret", r#"{"secret":"abc"}"#),
        ("123", "bearer", r#"{"token":"123"}"#),
        ("k", "api_key", r#"{"api_key":"k"}"#),
        ("postgres://h/d", "postgres", r#"{"connection_string":"postgres://h/d"}"#),
        (r#"{"token":"t"}"#, "bearer", r#"{"token":"t"}"#),
        (r#"{"user":"u","password":"p"}"#, "basic", r#"{"password":"p","user":"u"}"#),
        (r#"{"a":1}"#, "of my own", r#"{"a":1}"#),
    ] {
        assert_eq!(secret_fields(text, kind).unwrap().to_string(), expected);
    }
}

#[test]
fn rejects_data_of_another_shape_than_the_type() {
    for (text, kind, message, help) in [
        ("", "secret", "a secret of type secret is empty", "give a text, or a JSON object"),
        ("u:p", "basic", "cannot be a plain text", "fields 'username' and 'password'"),
        (r#"{"username":"u"}"#, "basic", "requires the field 'password'", "'username'"),
        (r#"{"secret":"t"}"#, "bearer", "requires the field 'token'", "'token'"),
        (r#"{"token":"t""#, "bearer", "is not valid JSON", "'token'"),
        (r#"{"password":"p"}"#, "postgres", "requires the field 'db_host'", "'db_host'"),
    ] {
        let error = secret_fields(text, kind).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.help_text().unwrap().contains(help), "{:?}", error.help_text());
    }
}
