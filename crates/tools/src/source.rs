//! Where the text of a script comes from: the playbook itself, a file, or the web.
//!
//! Owns the forms in which a playbook names a script. Files are read within the operator's folders,
//! and the web through the same guard as any other request.

use std::path::Path;
use std::sync::Arc;

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, missing, unreadable, wrong};
use crate::http::{Request, Web, read_url};
use crate::roots;
use crate::settings::Settings;

/// The largest script that is read from elsewhere.
const LARGEST_SCRIPT: ByteSize = ByteSize::from_mib(16);

/// Reads scripts.
#[derive(Debug)]
pub(crate) struct Sources {
    settings: Arc<Settings>,
    web: Arc<Web>,
}

/// A script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceText {
    /// What it says.
    pub(crate) text: String,
    /// Where it was found; an inline one has no place.
    pub(crate) uri: Option<String>,
}

/// Where a script is.
#[derive(Debug, PartialEq, Eq)]
enum Place<'s> {
    Inline(&'s str),
    File(&'s str),
    Web(&'s str),
}

impl Sources {
    pub(crate) fn new(settings: Arc<Settings>, web: Arc<Web>) -> Self {
        Self { settings, web }
    }

    /// The script that a map names.
    pub(crate) async fn read(&self, script: Config<'_>) -> Result<SourceText, TaskError> {
        let empty = JsonMap::new();
        let (text, uri) = match place(script, Config(&empty))? {
            Place::Inline(text) => (text.to_owned(), None),
            Place::File(path) => (self.file(path).await?, Some(path.to_owned())),
            Place::Web(url) => (self.web(url).await?, Some(url.to_owned())),
        };
        Ok(SourceText { text, uri })
    }

    async fn web(&self, url: &str) -> Result<String, TaskError> {
        let request = Request::get(read_url("script.uri", url)?);
        let answer = self.web.exchange(&request, LARGEST_SCRIPT).await?;
        if let Some(mut error) = answer.error() {
            error.message = format!("the script cannot be read: {}", error.message).into();
            return Err(error);
        }
        utf8(answer.into_body())
    }

    async fn file(&self, uri: &str) -> Result<String, TaskError> {
        let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
        utf8(roots::read("script", path, LARGEST_SCRIPT, &self.settings).await?)
    }
}

/// Where the script is. Both the short and the long form of a source are in use: the type as a text
/// beside the address, or a map of its own.
fn place<'s>(script: Config<'s>, empty: Config<'s>) -> Result<Place<'s>, TaskError> {
    let (kind, source) = match script.get("source") {
        Some(Json::Str(kind)) => (Some(&**kind), empty),
        Some(Json::Map(source)) => {
            let source = Config(source);
            (source.text("type")?.or(script.text("type")?), source)
        }
        Some(other) => return Err(wrong("script.source", "a map", other)),
        None => (script.text("type")?, empty),
    };
    let either = |keys: &[&str]| {
        let mut maps = [source, script].into_iter();
        maps.find_map(|map| keys.iter().find_map(|key| map.get(key)))
    };
    let text = |key: &str, value: Option<&'s Json>| {
        let value = value.ok_or_else(|| missing(&format!("'{key}'")))?;
        let text = value.as_str();
        text.ok_or_else(|| wrong(key, "a text", value))
    };
    let content = either(&["content", "code"]);
    let uri = script
        .get("uri")
        .or_else(|| either(&["uri", "path", "url", "endpoint"]));
    match kind {
        Some("inline") => text("script.content", content).map(Place::Inline),
        None if content.is_some() => text("script.content", content).map(Place::Inline),
        Some("file" | "local") => text("script.uri", uri).map(Place::File),
        Some("http" | "https") => text("script.uri", uri).map(Place::Web),
        None => by_scheme(text("script.uri", uri)?),
        Some(other) => Err(unsupported(&format!("scripts of type '{other}'"))),
    }
}

/// Where an address leads that says so itself.
fn by_scheme(uri: &str) -> Result<Place<'_>, TaskError> {
    match uri.split_once("://") {
        None | Some(("file", _)) => Ok(Place::File(uri)),
        Some(("http" | "https", _)) => Ok(Place::Web(uri)),
        Some(_) => Err(unsupported(&format!("the script '{uri}'"))),
    }
}

fn unsupported(what: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Unsupported,
        format!("{what} cannot be read by this worker; use inline, file or http"),
    )
}

fn utf8(bytes: Vec<u8>) -> Result<String, TaskError> {
    String::from_utf8(bytes)
        .map_err(|_| unreadable("script.uri", "names something that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn found(text: &str) -> Result<String, String> {
        let (script, empty) = (parse(text.as_bytes()).unwrap(), JsonMap::new());
        let script = Config(script.as_map().unwrap());
        match place(script, Config(&empty)) {
            Ok(place) => Ok(format!("{place:?}")),
            Err(error) => Err(format!("{}: {}", error.kind, error.message)),
        }
    }

    #[test]
    fn the_forms_of_a_source() {
        for (script, expected) in [
            (r#"{"content": "x"}"#, r#"Inline("x")"#),
            (
                r#"{"type": "inline", "content": "x", "uri": "u"}"#,
                r#"Inline("x")"#,
            ),
            (
                r#"{"source": {"type": "inline", "code": "x"}}"#,
                r#"Inline("x")"#,
            ),
            (r#"{"uri": "/a.py"}"#, r#"File("/a.py")"#),
            (r#"{"uri": "file:///a.py"}"#, r#"File("file:///a.py")"#),
            (r#"{"type": "local", "uri": "a.sh"}"#, r#"File("a.sh")"#),
            (
                r#"{"source": {"type": "file", "path": "/a"}}"#,
                r#"File("/a")"#,
            ),
            (r#"{"source": "file", "uri": "/a"}"#, r#"File("/a")"#),
            (r#"{"uri": "https://h/a"}"#, r#"Web("https://h/a")"#),
            (
                r#"{"source": {"type": "http", "endpoint": "http://h"}}"#,
                r#"Web("http://h")"#,
            ),
        ] {
            assert_eq!(found(script).as_deref(), Ok(expected), "{script}");
        }
        for (script, part) in [
            (
                r#"{"type": "inline"}"#,
                "schema: 'script.content' is missing",
            ),
            (r#"{"type": "file"}"#, "schema: 'script.uri' is missing"),
            ("{}", "schema: 'script.uri' is missing"),
            (
                r#"{"content": 1}"#,
                "schema: 'script.content' must be a text",
            ),
            (r#"{"source": 1}"#, "schema: 'script.source' must be a map"),
            (
                r#"{"type": "gcs", "uri": "gs://b/k"}"#,
                "unsupported: scripts of type 'gcs'",
            ),
            (
                r#"{"uri": "s3://b/k"}"#,
                "unsupported: the script 's3://b/k'",
            ),
        ] {
            let refused = found(script).unwrap_err();
            assert!(refused.starts_with(part), "{refused}");
        }
    }
}
