//! What of a credential is no secret: fields that its type makes public.
//!
//! A result that names a database must not change because a credential names it, too. Types and
//! fields that are not listed here are secret.

use std::sync::Arc;

use crate::Json;

/// The longest value that is public: names are no longer.
const LONGEST_NAME: usize = 255;

/// What of a credential must not be seen. Its type says so; where nobody knows it, a field of that
/// name does. The type itself is a word that everybody knows.
pub fn secrets_of(kind: Option<&str>, credential: &Json) -> Json {
    let Json::Map(fields) = credential else {
        return credential.clone();
    };
    let kind = kind.or_else(|| fields.get("type").and_then(Json::as_str));
    let public = kind.map_or(&[][..], public_fields);
    let secret = fields.iter().filter(|(name, value)| {
        let is_public = public.contains(&&***name) && is_plain(value);
        &***name != "type" && !is_public
    });
    Json::object(secret.map(|(name, value)| (Arc::clone(name), value.clone())))
}

/// The fields of a type that say where something is and who asks, and open nothing.
///
/// Users of `basic` are not among them: there are services whose keys are sent as one.
fn public_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "postgres" | "postgresql" | "mysql" | "clickhouse" | "snowflake" => &[
            "account",
            "database",
            "db_host",
            "db_name",
            "db_port",
            "db_schema",
            "db_user",
            "dbname",
            "host",
            "port",
            "region",
            "role",
            "schema",
            "sslmode",
            "user",
            "username",
            "warehouse",
        ],
        "nats" => &["nats_user", "user", "username"],
        "s3" | "gcs" => &["bucket", "region"],
        "api_key" => &["header"],
        _ => &[],
    }
}

/// Whether a value is a name or a number and nothing else, such as an address with a password in it.
fn is_plain(value: &Json) -> bool {
    match value {
        Json::Str(text) => {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            text.len() <= LONGEST_NAME && text.bytes().all(is_of_name)
        }
        Json::Int(_) | Json::UInt(_) => true,
        Json::Null | Json::Bool(_) | Json::Float(_) | Json::List(_) | Json::Map(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(kind: Option<&str>, credential: &str) -> String {
        let credential = crate::json::parse(credential.as_bytes()).unwrap();
        secrets_of(kind, &credential).to_string()
    }

    #[test]
    fn fields_that_a_type_makes_public_are_no_secrets() {
        let fields = r#"{"db_host":"db.example.org","db_name":"analytics","db_password":"p","db_port":5432,"db_user":"reporting","more":"x","type":"postgres"}"#;
        assert_eq!(
            secret(Some("postgres"), fields),
            r#"{"db_password":"p","more":"x"}"#
        );
        assert_eq!(secret(None, fields), r#"{"db_password":"p","more":"x"}"#);
    }

    #[test]
    fn what_nobody_knows_is_a_secret() {
        for (kind, fields) in [
            (Some("basic"), r#"{"host":"h","username":"key-1"}"#),
            (Some("vault"), r#"{"host":"h","user":"u"}"#),
            (None, r#"{"host":"h","user":"u"}"#),
            (None, r#"["a","b"]"#),
            (
                Some("postgres"),
                r#"{"host":"postgres://u:p@h","user":["u"]}"#,
            ),
        ] {
            assert_eq!(secret(kind, fields), fields);
        }
    }
}
