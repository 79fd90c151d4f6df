//! The kinds `artifact` and `result_fetch`: data that is kept beside the log, by its reference.

use async_trait::async_trait;
use noetl_types::{Digest, Json, TaskError, TaskErrorKind};

use crate::call::{Call, Outcome};
use crate::config::{Config, missing, unreadable, wrong};
use crate::platform::{NewResult, ResultRef};
use crate::tool::{Scope, Tool};

/// How a reference begins.
const SCHEME: &str = "noetl://";

/// The names under which a reference is given.
const REFERENCE_KEYS: [&str; 3] = ["result_ref", "uri", "ref"];

/// Fetches and keeps results.
#[derive(Debug)]
pub(crate) struct Artifact;

#[async_trait]
impl Tool for Artifact {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        let done = match Config(&call.config).text("action") {
            Ok(None | Some("get")) => get(call, scope).await,
            Ok(Some("put")) => put(call, scope).await,
            Ok(Some(word)) => {
                let why = format!("is '{word}', not get or put");
                Err(unreadable("action", &why))
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(data) => Outcome::ok(data),
            Err(error) => error.into(),
        }
    }
}

async fn get(call: &Call, scope: &Scope) -> Result<Json, TaskError> {
    let maps = [&call.config, &call.input];
    let given = maps
        .iter()
        .flat_map(|map| REFERENCE_KEYS.map(|key| Config(map).get(key)))
        .flatten()
        .next()
        .ok_or_else(|| missing("'result_ref'"))?;
    scope.platform()?.fetch(reference(given)?).await
}

/// The reference that a value is: the address itself, or a map that holds it, such as the one in an
/// event or the data of a step.
fn reference(value: &Json) -> Result<ResultRef, TaskError> {
    let fields = value.as_map().map(Config);
    let (uri, sha256) = match (value, fields) {
        (Json::Str(uri), _) => (&**uri, None),
        (_, Some(fields)) => {
            let uri = match fields.text("ref")? {
                Some(uri) => Some(uri),
                None => fields.text("_ref")?.or(fields.text("uri")?),
            };
            let uri = uri.ok_or_else(|| missing("'result_ref.ref'"))?;
            (uri, fields.text("sha256")?)
        }
        (other, None) => return Err(wrong("result_ref", "a text or a map", other)),
    };
    if !uri.starts_with(SCHEME) {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!("'{uri}' is not a result of this platform; references begin with {SCHEME}"),
        ));
    }
    let sha256 = sha256
        .map(Digest::parse)
        .transpose()
        .map_err(|_| unreadable("result_ref.sha256", "is not a digest"))?;
    Ok(ResultRef {
        uri: uri.into(),
        sha256,
    })
}

async fn put(call: &Call, scope: &Scope) -> Result<Json, TaskError> {
    let maps = [&call.config, &call.input];
    // Null is data like any other.
    let data = maps.iter().find_map(|map| map.get("data"));
    let data = data.ok_or_else(|| missing("'data'"))?;
    let name = Config(&call.input).text("name")?.unwrap_or(&call.label);
    let kept = scope
        .platform()?
        .put(NewResult {
            execution_id: call.execution_id.clone(),
            step: call.step.clone(),
            name: name.to_owned(),
            data: data.clone(),
            idempotency_key: call.idempotency_key.clone(),
        })
        .await?;
    Ok(Json::object([
        ("ref", Json::from(kept.uri)),
        ("bytes", Json::from(kept.bytes)),
        ("sha256", Json::from(kept.sha256)),
    ]))
}
