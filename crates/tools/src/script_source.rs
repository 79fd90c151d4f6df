//! Loading of scripts: from the playbook itself, a file, or the web.
//!
//! Owns the forms in which a playbook names a script. Files are read only from the operator's
//! directories, and URLs through the same egress guard as any other request.

use std::path::Path;
use std::sync::Arc;

use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};

use crate::config::{Config, invalid_value, missing_key, wrong_type};
use crate::file_access;
use crate::http::{HttpClient, HttpRequest, parse_http_url};
use crate::settings::Settings;

/// Maximum size of a script that is loaded from a file or a URL.
const MAX_SCRIPT_SIZE: ByteSize = ByteSize::from_mib(16);

#[derive(Debug)]
pub(crate) struct ScriptLoader {
    settings: Arc<Settings>,
    http: Arc<HttpClient>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoadedScript {
    pub(crate) text: String,
    /// Address of the script; `None` for an inline one.
    pub(crate) uri: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum ScriptLocation<'s> {
    Inline(&'s str),
    File(&'s str),
    Web(&'s str),
}

impl ScriptLoader {
    pub(crate) fn new(settings: &Arc<Settings>, http: &Arc<HttpClient>) -> Self {
        Self { settings: Arc::clone(settings), http: Arc::clone(http) }
    }

    /// Loads the script that a map names.
    pub(crate) async fn load_script(&self, script: Config<'_>) -> Result<LoadedScript, TaskError> {
        let (text, uri) = match find_location(script)? {
            ScriptLocation::Inline(text) => (text.to_owned(), None),
            ScriptLocation::File(path) => {
                (self.read_script_file(path).await?, Some(path.to_owned()))
            }
            ScriptLocation::Web(url) => (self.fetch_script(url).await?, Some(url.to_owned())),
        };
        Ok(LoadedScript { text, uri })
    }

    async fn fetch_script(&self, url: &str) -> Result<String, TaskError> {
        let request = HttpRequest::get(parse_http_url("script.uri", url)?);
        let response = self.http.send_and_read(&request, MAX_SCRIPT_SIZE).await?;
        if let Some(mut error) = response.status_error() {
            error.message = format!("the script cannot be read: {}", error.message).into();
            return Err(error);
        }
        decode_utf8(response.into_body())
    }

    async fn read_script_file(&self, uri: &str) -> Result<String, TaskError> {
        let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
        decode_utf8(
            file_access::read_allowed_file("script", path, MAX_SCRIPT_SIZE, &self.settings).await?,
        )
    }
}

/// Finds the location of the script. Both the short and the long form of a source are in use: the
/// type as a text next to the address, or a separate map.
fn find_location<'s>(script: Config<'s>) -> Result<ScriptLocation<'s>, TaskError> {
    let (kind, source) = match script.get("source") {
        Some(Json::Str(kind)) => (Some(&**kind), script),
        Some(Json::Map(source)) => {
            let source = Config(source);
            (source.text("type")?.or(script.text("type")?), source)
        }
        Some(other) => return Err(wrong_type("script.source", "a map", other)),
        None => (script.text("type")?, script),
    };
    let find_value = |keys: &[&str]| {
        let mut maps = [source, script].into_iter();
        maps.find_map(|map| keys.iter().find_map(|key| map.get(key)))
    };
    let text = |key: &str, value: Option<&'s Json>| {
        let value = value.ok_or_else(|| missing_key(&format!("'{key}'")))?;
        value.as_str().ok_or_else(|| wrong_type(key, "a text", value))
    };
    let content = find_value(&["content", "code"]);
    // The address in `source` is complete; `uri` may be only a name for it.
    let uri = find_value(&["endpoint", "url", "uri", "path"]);
    match kind {
        Some("inline") => text("script.content", content).map(ScriptLocation::Inline),
        None if content.is_some() => text("script.content", content).map(ScriptLocation::Inline),
        Some("file" | "local") => text("script.uri", uri).map(ScriptLocation::File),
        Some("http" | "https") => text("script.uri", uri).map(ScriptLocation::Web),
        None => location_from_scheme(text("script.uri", uri)?),
        Some(other) => Err(unsupported_location(&format!("scripts of type '{other}'"))),
    }
}

/// Derives the location from the scheme of an address.
fn location_from_scheme(uri: &str) -> Result<ScriptLocation<'_>, TaskError> {
    match uri.split_once("://") {
        None | Some(("file", _)) => Ok(ScriptLocation::File(uri)),
        Some(("http" | "https", _)) => Ok(ScriptLocation::Web(uri)),
        Some(_) => Err(unsupported_location(&format!("the script '{uri}'"))),
    }
}

fn unsupported_location(subject: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Unsupported,
        format!("{subject} cannot be loaded by this worker; use inline, file or http"),
    )
}

fn decode_utf8(bytes: Vec<u8>) -> Result<String, TaskError> {
    String::from_utf8(bytes)
        .map_err(|_| invalid_value("script.uri", "names a script that is not valid UTF-8"))
}

#[cfg(test)]
mod tests;
