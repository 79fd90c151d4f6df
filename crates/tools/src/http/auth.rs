//! Inline credentials of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, TaskError, TaskErrorKind};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::config::Config;

/// Header of an API key, unless the credential names another.
const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// Builds the header that the credential of a task requires.
pub(super) fn credential_header(auth: &Json) -> Result<(HeaderName, HeaderValue), TaskError> {
    let Some(fields) = auth.as_map() else {
        let alias = auth.as_str().unwrap_or("?");
        return Err(auth_error(format!(
            "the credential '{alias}' cannot be resolved: this worker has no keychain; \
             give the credential as a map, such as {{type: bearer, token: ...}}"
        )));
    };
    let fields = Config(fields);
    let kind = fields.text("type").ok().flatten().unwrap_or("");
    let (name, text) = match kind {
        "bearer" | "bearer_token" => {
            let token = credential_field(fields, kind, &["token", "bearer_token"])?;
            (AUTHORIZATION, format!("Bearer {token}"))
        }
        "basic" => {
            let user = credential_field(fields, kind, &["username", "user"])?;
            let password = credential_field(fields, kind, &["password"])?;
            let pair = STANDARD.encode(format!("{user}:{password}"));
            (AUTHORIZATION, format!("Basic {pair}"))
        }
        "api_key" => {
            let name = match fields.text("header").ok().flatten() {
                Some(name) => HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| auth_error(format!("'{name}' is not a valid header name")))?,
                None => API_KEY_HEADER,
            };
            (name, credential_field(fields, kind, &["api_key", "key"])?.to_owned())
        }
        "" => return Err(auth_error("the credential has no 'type'".to_owned())),
        other => {
            return Err(auth_error(format!(
                "a credential of type '{other}' cannot be used by an http task; \
                 use bearer, basic or api_key"
            )));
        }
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| auth_error(format!("the {kind} credential is not a valid header value")))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn credential_field<'f>(
    fields: Config<'f>,
    kind: &str,
    names: &[&str],
) -> Result<&'f str, TaskError> {
    names
        .iter()
        .find_map(|name| fields.text(name).ok().flatten())
        .ok_or_else(|| auth_error(format!("the {kind} credential has no '{}'", names[0])))
}

fn auth_error(message: String) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, message)
}
