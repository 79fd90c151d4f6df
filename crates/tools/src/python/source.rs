//! Where the code of a task comes from.

use std::path::Path;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, missing, unreadable, wrong};
use crate::settings::Settings;

/// The largest script that is read from a file.
const LARGEST_SCRIPT: u64 = 16 * 1024 * 1024;

/// The code that the config names.
pub(super) async fn code(config: Config<'_>, settings: &Settings) -> Result<String, TaskError> {
    if let Some(code) = config.text("code")? {
        return Ok(code.to_owned());
    }
    if let Some(code) = config.base64_text("code_b64")? {
        return Ok(code);
    }
    match config.map("script")? {
        Some(script) => read_script(Config(script), settings).await,
        None => Err(missing("'code', 'code_b64' or 'script'")),
    }
}

async fn read_script(script: Config<'_>, settings: &Settings) -> Result<String, TaskError> {
    let empty = JsonMap::new();
    let source = match script.get("source") {
        Some(Json::Map(source)) => Config(source),
        Some(Json::Str(_)) | None => Config(&empty),
        Some(other) => return Err(wrong("script.source", "a map", other)),
    };
    // Both the short and the long form of a source are in use.
    let kind = match script.get("source") {
        Some(Json::Str(kind)) => Some(&**kind),
        _ => source.text("type")?.or(script.text("type")?),
    };
    let content = [source, script]
        .into_iter()
        .flat_map(|map| [map.get("content"), map.get("code")])
        .flatten()
        .next();
    let uri = match script.text("uri")? {
        Some(uri) => Some(uri),
        None => source.text("uri")?.or(source.text("path")?),
    };
    match (kind, content, uri) {
        (Some("inline") | None, Some(content), _) => content
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| wrong("script.content", "a text", content)),
        (Some("inline"), None, _) => Err(missing("'script.content'")),
        (Some("file" | "local") | None, _, Some(uri)) => read_file(uri, settings).await,
        (Some("file" | "local") | None, _, None) => Err(missing("'script.uri'")),
        (Some(other), _, _) => Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!("scripts of type '{other}' cannot be read here; use inline or file"),
        )),
    }
}

async fn read_file(uri: &str, settings: &Settings) -> Result<String, TaskError> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if path.contains("://") {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!("the script '{uri}' is not a file; only files can be read here"),
        ));
    }
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => TaskErrorKind::NotFound,
            _ => TaskErrorKind::StorageAccess,
        };
        TaskError::new(kind, format!("the script '{path}' cannot be read: {error}"))
    };
    let real = tokio::fs::canonicalize(path).await.map_err(failed)?;
    check_root(&real, path, settings)?;
    let size = tokio::fs::metadata(&real).await.map_err(failed)?.len();
    if size > LARGEST_SCRIPT {
        let message = format!("the script '{path}' has {size} bytes, {LARGEST_SCRIPT} are allowed");
        return Err(TaskError::new(TaskErrorKind::Limit, message));
    }
    let bytes = tokio::fs::read(&real).await.map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| unreadable("script.uri", "names a file that is not UTF-8"))
}

fn check_root(real: &Path, path: &str, settings: &Settings) -> Result<(), TaskError> {
    let Some(roots) = &settings.file_roots else {
        return Ok(());
    };
    let inside =
        |root: &std::path::PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if roots.iter().any(inside) {
        return Ok(());
    }
    Err(TaskError::new(
        TaskErrorKind::Auth,
        format!("the script '{path}' is outside of the folders that the operator opened"),
    ))
}
