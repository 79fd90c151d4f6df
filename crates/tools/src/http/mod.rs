//! The kind `http`: one request, with redirects, and its answer as data.

mod auth;
mod exchange;
mod request;
mod response;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{ByteSize, TaskError};
use tokio::time::Instant;

pub(crate) use self::exchange::{Incoming, Web, shown, shown_bare, too_large};
pub(crate) use self::request::{IDEMPOTENCY_KEY, Request, headers, idempotency_key, read_url};
pub(crate) use self::response::refusal;
use crate::call::{Call, Outcome};
use crate::tool::{Scope, Tool};

/// Sends HTTP requests.
#[derive(Debug)]
pub(crate) struct Http {
    web: Arc<Web>,
    payload_cap: ByteSize,
}

impl Http {
    pub(crate) fn new(web: Arc<Web>, payload_cap: ByteSize) -> Self {
        Self { web, payload_cap }
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let request = Request::of_call(call)?;
        let started = Instant::now();
        let answer = self.web.exchange(&request, self.payload_cap).await?;
        Ok(answer.outcome(request.response_type, started.elapsed()))
    }
}

#[async_trait]
impl Tool for Http {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}
