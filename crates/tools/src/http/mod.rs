//! The kind `http`: sends one request, follows redirects, and returns the response as data.

mod client;
mod request;
mod response;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{ByteSize, TaskError};
use tokio::time::Instant;

pub(crate) use self::client::{
    HttpClient, IncomingResponse, body_too_large, strip_credentials, strip_credentials_and_query,
};
pub(crate) use self::request::{
    HttpRequest, IDEMPOTENCY_KEY_HEADER, idempotency_header, parse_http_url, read_headers,
};
pub(crate) use self::response::error_from_status;
use crate::call::{ToolCall, ToolOutcome};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

#[derive(Debug)]
pub(crate) struct HttpTool {
    client: Arc<HttpClient>,
    payload_cap: ByteSize,
}

impl HttpTool {
    pub(crate) fn new(settings: &Settings) -> Self {
        let client = Arc::new(HttpClient::new(settings.egress.clone()));
        Self { client, payload_cap: settings.payload_cap }
    }

    /// Returns the client, which other tools share.
    pub(crate) fn client(&self) -> &Arc<HttpClient> {
        &self.client
    }
}

#[async_trait]
impl Tool for HttpTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let request = HttpRequest::from_call(call)?;
        let started = Instant::now();
        let response = self.client.send_and_read(&request, self.payload_cap).await?;
        Ok(response.to_outcome(request.response_type, started.elapsed()))
    }
}
