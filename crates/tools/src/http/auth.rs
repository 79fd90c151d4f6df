//! Credentials of a request, given inline.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, TaskError, TaskErrorKind};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::config::Config;

/// The header that carries an API key unless the credential names another.
const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// The header that the credential of a task asks for.
pub(super) fn header(auth: &Json) -> Result<(HeaderName, HeaderValue), TaskError> {
    let Some(fields) = auth.as_map() else {
        let alias = auth.as_str().unwrap_or("?");
        return Err(refused(format!(
            "the credential '{alias}' cannot be resolved: this worker has no keychain; \
             give the credential as a map, such as {{type: bearer, token: ...}}"
        )));
    };
    let fields = Config(fields);
    let kind = fields.text("type").ok().flatten().unwrap_or("");
    let (name, text) = match kind {
        "bearer" | "bearer_token" => {
            let token = field(fields, kind, &["token", "bearer_token"])?;
            (AUTHORIZATION, format!("Bearer {token}"))
        }
        "basic" => {
            let user = field(fields, kind, &["username", "user"])?;
            let password = field(fields, kind, &["password"])?;
            let pair = STANDARD.encode(format!("{user}:{password}"));
            (AUTHORIZATION, format!("Basic {pair}"))
        }
        "api_key" => {
            let name = match fields.text("header").ok().flatten() {
                Some(name) => HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| refused(format!("'{name}' cannot be the header of an API key")))?,
                None => API_KEY_HEADER,
            };
            (name, field(fields, kind, &["api_key", "key"])?.to_owned())
        }
        "" => return Err(refused("the credential has no 'type'".to_owned())),
        other => {
            return Err(refused(format!(
                "a credential of type '{other}' does not fit an http task; \
                 use bearer, basic or api_key"
            )));
        }
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| refused(format!("the {kind} credential cannot be sent in a header")))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn field<'f>(fields: Config<'f>, kind: &str, names: &[&str]) -> Result<&'f str, TaskError> {
    names
        .iter()
        .find_map(|name| fields.text(name).ok().flatten())
        .ok_or_else(|| refused(format!("the {kind} credential has no '{}'", names[0])))
}

fn refused(message: String) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, message)
}
