//! The kind `noop`: gives its `result`, or says that all is well.

use async_trait::async_trait;
use noetl_types::Json;

use crate::call::{Call, Outcome};
use crate::tool::{Scope, Tool};

/// Does nothing.
#[derive(Debug)]
pub(crate) struct Noop;

#[async_trait]
impl Tool for Noop {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        if let Some(result) = call.config.get("result") {
            return Outcome::ok(result.clone());
        }
        let message = call.config.get("message").cloned().unwrap_or_default();
        Outcome::ok(Json::object([
            ("status", Json::from("ok")),
            ("message", message),
        ]))
    }
}
