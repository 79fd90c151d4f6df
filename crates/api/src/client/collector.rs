//! Sending documents to servers that are none of the house.

use super::Client;
use super::call::causes;
use crate::error::ApiError;

impl Client {
    /// Sends JSON to a path; gives the status of the answer, whose body nobody reads.
    pub async fn deliver(&self, path: &str, body: Vec<u8>) -> Result<u16, ApiError> {
        let sent = self
            .inner
            .http
            .post(format!("{}{path}", self.inner.base))
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .timeout(self.inner.timeout.into())
            .body(body)
            .send()
            .await;
        match sent {
            Ok(answer) => Ok(answer.status().as_u16()),
            Err(error) => Err(ApiError::Unreachable(causes(&error).into())),
        }
    }
}
