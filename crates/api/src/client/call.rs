//! How one call is made and its answer read.

use std::error::Error;
use std::time::Duration;

use noetl_types::{Millis, Text};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use super::Client;
use crate::error::ApiError;
use crate::problem::Problem;

/// The header that names the key under which an effect happens once.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How much longer a call may take for each MiB that goes either way: a server gives a slow sender
/// half of it, and has to write down what it was sent.
const PER_MIB: Millis = Millis::from_secs(2);
/// Bytes of a problem that are read at most.
const MAX_PROBLEM: u64 = 1 << 20;

impl Client {
    /// The address of a path that has no parameters of its own.
    pub(super) fn url(&self, path: &str) -> Result<Url, ApiError> {
        super::url(&self.inner.base, path)
            .map_err(|refused| ApiError::Unreachable(refused.to_string().into()))
    }

    /// Sends a body and reads the answer. The server is asked to wait for `wait_ms` at most.
    pub(super) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        url: Url,
        body: &B,
        wait_ms: u64,
    ) -> Result<T, ApiError> {
        let request = self.with_body(Method::POST, url, body)?;
        let response = self.accepted(request, wait_ms).await?;
        self.read(response).await
    }

    /// Sends a body whose effect happens once under a key, and reads the answer.
    pub(super) async fn once<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: &B,
        key: &str,
    ) -> Result<T, ApiError> {
        let key = HeaderValue::try_from(key)
            .map_err(|_| ApiError::Unreadable("the request: its key cannot be a header".into()))?;
        let request = self.with_body(method, url, body)?;
        let response = self
            .accepted(request.header(IDEMPOTENCY_KEY, key), 0)
            .await?;
        self.read(response).await
    }

    fn with_body<B: Serialize>(
        &self,
        method: Method,
        url: Url,
        body: &B,
    ) -> Result<RequestBuilder, ApiError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ApiError::Unreadable(format!("the request: {error}").into()))?;
        let json = HeaderValue::from_static("application/json");
        let request = self.inner.http.request(method, url);
        Ok(request.header(CONTENT_TYPE, json).body(body))
    }

    /// Reads what is at an address.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, ApiError> {
        let response = self.accepted(self.request(url), 0).await?;
        self.read(response).await
    }

    /// The answer to a request, unless it is a refusal.
    pub(super) async fn accepted(
        &self,
        request: RequestBuilder,
        wait_ms: u64,
    ) -> Result<Response, ApiError> {
        let response = self.send(request, wait_ms).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(response, self.inner.timeout).await)
    }

    /// Reads an answer that is JSON.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        response: Response,
    ) -> Result<T, ApiError> {
        let most = self.inner.max_answer.as_bytes();
        let body = bounded(response, most, self.inner.timeout).await?;
        serde_json::from_slice(&body)
            .map_err(|error| ApiError::Unreadable(error.to_string().into()))
    }

    /// Sends a request, whatever the answer says.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
        wait_ms: u64,
    ) -> Result<Response, ApiError> {
        let request = request.build().map_err(unreachable)?;
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let bytes = body.map_or(0, <[u8]>::len);
        let waited = self.inner.timeout.saturating_add(Millis::from_ms(wait_ms));
        let patience = waited.saturating_add(grace(bytes));
        // A time limit of the request would be one for its answer too, however large that is.
        let answered = timeout(patience.into(), self.inner.http.execute(request)).await;
        answered.map_err(|_| silent())?.map_err(unreachable)
    }

    /// A request without a body.
    pub(super) fn request_by(&self, method: Method, url: Url) -> RequestBuilder {
        self.inner.http.request(method, url)
    }

    /// A request that reads what is at an address.
    pub(super) fn request(&self, url: Url) -> RequestBuilder {
        self.inner.http.request(Method::GET, url)
    }
}

/// How much longer so many bytes may take.
pub(super) fn grace(bytes: usize) -> Millis {
    const MIB: u64 = 1 << 20;
    PER_MIB.saturating_mul(bytes as u64 / MIB)
}

/// The server did not answer in time.
fn silent() -> ApiError {
    ApiError::Unreachable("no answer in time".into())
}

/// The body of an answer, unless it is larger than it may be or takes too long for what has come.
async fn bounded(mut response: Response, most: u64, patience: Millis) -> Result<Vec<u8>, ApiError> {
    let too_large = || ApiError::Unreadable(format!("it has more than {most} bytes").into());
    let told = response.content_length().unwrap_or(0);
    if told > most {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(usize::try_from(told).unwrap_or(0));
    let started = Instant::now();
    loop {
        let end = started + Duration::from(patience.saturating_add(grace(body.len())));
        let chunk = timeout_at(end, response.chunk()).await;
        let Some(chunk) = chunk.map_err(|_| silent())?.map_err(unreachable)? else {
            return Ok(body);
        };
        if body.len() as u64 + chunk.len() as u64 > most {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
}

/// What a server that does not do what it is asked says about it.
pub(super) async fn refusal(response: Response, patience: Millis) -> ApiError {
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let body = match bounded(response, MAX_PROBLEM, patience).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => ApiError::Refused {
            problem: Box::new(problem),
            retry_after,
        },
        Err(_) => not_a_problem(status),
    }
}

/// Something between here and the server answered.
fn not_a_problem(status: StatusCode) -> ApiError {
    let text: Text = format!("{status}, and no word of why").into();
    match status {
        StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => ApiError::Unreachable(text),
        _ => ApiError::Unreadable(text),
    }
}

/// How long the server asks to wait. It says so in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let secs = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse();
    secs.ok().map(Millis::from_secs)
}

pub(super) fn unreachable(error: reqwest::Error) -> ApiError {
    // The address may hold a capability, so it is told to nobody.
    ApiError::Unreachable(causes(&error.without_url()).into())
}

/// An error and all that led to it, in one line.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
