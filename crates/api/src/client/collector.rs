//! Requests to servers other than NoETL, such as telemetry collectors.

use super::Client;
use super::call::error_chain;
use crate::error::ApiError;

impl Client {
    /// Posts JSON to a path and returns the HTTP status. The response body is ignored.
    pub async fn post_json(&self, path: &str, body: Vec<u8>) -> Result<u16, ApiError> {
        let result = self
            .inner
            .http
            .post(format!("{}{path}", self.inner.base))
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .timeout(self.inner.timeout.into())
            .body(body)
            .send()
            .await;
        match result {
            Ok(response) => Ok(response.status().as_u16()),
            Err(error) => Err(ApiError::Unreachable(error_chain(&error).into())),
        }
    }
}
