//! The kinds `artifact` and `result_fetch`: fetch and store data that is kept outside the event log
//! and addressed by reference.

use async_trait::async_trait;
use noetl_types::{Digest, Json, TaskError, TaskErrorKind};

use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, invalid_value, missing_key, wrong_type};
use crate::platform::{NewResult, ResultRef};
use crate::tool::{CallContext, Tool};

const REFERENCE_SCHEME: &str = "noetl://";

/// Keys that may hold a reference.
const REFERENCE_KEYS: [&str; 3] = ["result_ref", "uri", "ref"];

#[derive(Debug)]
pub(crate) struct ArtifactTool;

#[async_trait]
impl Tool for ArtifactTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let data = match Config(&call.config).text("action")? {
            None | Some("get") => fetch_artifact(call, context).await?,
            Some("put") => store_artifact(call, context).await?,
            Some(action) => {
                let problem = format!("is '{action}'; it must be get or put");
                return Err(invalid_value("action", &problem));
            }
        };
        Ok(ToolOutcome::ok(data))
    }
}

async fn fetch_artifact(call: &ToolCall, context: &CallContext) -> Result<Json, TaskError> {
    let maps = [&call.config, &call.input];
    let value = maps
        .iter()
        .flat_map(|map| REFERENCE_KEYS.map(|key| Config(map).get(key)))
        .flatten()
        .next()
        .ok_or_else(|| missing_key("'result_ref'"))?;
    context.platform()?.fetch_result(parse_reference(value)?).await
}

/// Parses a reference: either the address itself, or a map that holds it, such as the one in an
/// event or the data of a step.
fn parse_reference(value: &Json) -> Result<ResultRef, TaskError> {
    let (uri, sha256) = match value {
        Json::Str(uri) => (&**uri, None),
        Json::Map(fields) => {
            let fields = Config(fields);
            let uri = fields.first_text(&["ref", "_ref", "uri"])?;
            let uri = uri.ok_or_else(|| missing_key("'result_ref.ref'"))?;
            (uri, fields.text("sha256")?)
        }
        other => return Err(wrong_type("result_ref", "a text or a map", other)),
    };
    if !uri.starts_with(REFERENCE_SCHEME) {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!("'{uri}' is not a result reference; references begin with {REFERENCE_SCHEME}"),
        ));
    }
    let sha256 = sha256
        .map(Digest::parse)
        .transpose()
        .map_err(|_| invalid_value("result_ref.sha256", "is not a SHA-256 digest"))?;
    Ok(ResultRef { uri: uri.into(), sha256 })
}

async fn store_artifact(call: &ToolCall, context: &CallContext) -> Result<Json, TaskError> {
    let maps = [&call.config, &call.input];
    // Null is valid data.
    let data = maps.iter().find_map(|map| map.get("data"));
    let data = data.ok_or_else(|| missing_key("'data'"))?;
    let name = Config(&call.input).text("name")?.unwrap_or(&call.label);
    let stored = context
        .platform()?
        .store_result(NewResult {
            execution_id: call.execution_id.clone(),
            step: call.step.clone(),
            name: name.to_owned(),
            data: data.clone(),
            idempotency_key: call.idempotency_key.clone(),
        })
        .await?;
    Ok(Json::object([
        ("ref", Json::from(stored.uri)),
        ("bytes", Json::from(stored.bytes)),
        ("sha256", Json::from(stored.sha256)),
    ]))
}
