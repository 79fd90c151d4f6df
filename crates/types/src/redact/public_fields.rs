//! The public fields of credentials.
//!
//! A result that contains a database name must not change because a credential contains it too.
//! Types and fields that are not listed here are secret.

use std::sync::Arc;

use crate::Json;

/// Maximum length of a public value. Names are not longer.
const MAX_PUBLIC_VALUE_LEN: usize = 255;

/// Returns the secret part of a credential. The type determines which fields are secret. If it is
/// unknown, the field `type` is used. The type itself is public.
pub fn secret_fields(kind: Option<&str>, credential: &Json) -> Json {
    let Json::Map(fields) = credential else {
        return credential.clone();
    };
    let kind = kind.or_else(|| fields.get("type").and_then(Json::as_str));
    let public = kind.map_or(&[][..], public_fields);
    let secret = fields.iter().filter(|(name, value)| {
        let is_public = public.contains(&&***name) && is_plain_name(value);
        &***name != "type" && !is_public
    });
    Json::object(secret.map(|(name, value)| (Arc::clone(name), value.clone())))
}

/// Returns the fields of a type that describe a location or a user, and grant no access.
///
/// The user of `basic` is not public, because some services accept an API key as the user name.
fn public_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "postgres" | "postgresql" | "mysql" | "clickhouse" | "snowflake" => &[
            "account", "database", "db_host", "db_name", "db_port", "db_schema", "db_user",
            "dbname", "host", "port", "region", "role", "schema", "sslmode", "user", "username",
            "warehouse",
        ],
        "nats" => &["nats_user", "user", "username"],
        "s3" | "gcs" => &["bucket", "region"],
        "api_key" => &["header"],
        _ => &[],
    }
}

/// True if a value is a plain name or a number, unlike an address that contains a password.
fn is_plain_name(value: &Json) -> bool {
    match value {
        Json::Str(text) => {
            let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            text.len() <= MAX_PUBLIC_VALUE_LEN && text.bytes().all(is_name_byte)
        }
        Json::Int(_) | Json::UInt(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
