//! Sending of one request and reading of its response.

use std::error::Error;
use std::time::Duration;

use noetl_types::{Millis, Text};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Request, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Client, ClientBuildError};
use crate::error::ApiError;
use crate::problem::Problem;

/// Defines calls of the client. Each line is the name of the call, the method and the path, the id
/// in the path, the type of the body or the query, and the type of the response.
macro_rules! client_calls {
    ($(
        $(#[$doc:meta])*
        $name:ident = $method:ident $path:ident $([$id:ident])? $(($input:ty))? -> $output:ty;
    )+) => {
        impl Client {$(
            $(#[$doc])*
            pub async fn $name(
                &self,
                $($id: noetl_types::ExecutionId,)?
                $(request: &$input,)?
            ) -> Result<$output, ApiError> {
                let url = client_calls!(@url self, paths::$path $(, $id)?);
                client_calls!(@$method self, url $(, request as $input)?).await
            }
        )+}
    };
    (@url $self:ident, $path:expr) => { $self.url($path)? };
    (@url $self:ident, $path:expr, $id:ident) => { $self.execution_url($path, $id)? };
    (@get $self:ident, $url:ident) => { $self.get($url) };
    (@get $self:ident, $url:ident, $query:ident as $type:ty) => {
        $self.get($crate::client::call::with_query(
            $url,
            $crate::client::call::to_query_pairs::<$type>($query)?,
        ))
    };
    (@post $self:ident, $url:ident, $body:ident as $type:ty) => {
        $self.post::<$type, _>($url, $body, 0)
    };
}

pub(super) use client_calls;

/// Header with the idempotency key of a request.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Additional time per MiB of request or response. The server grants a slow sender half of it, and
/// needs time to store the data.
const TIMEOUT_PER_MIB: Millis = Millis::from_secs(2);
/// Interval between attempts to connect to a Unix socket.
const SOCKET_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum bytes of a problem document.
const MAX_PROBLEM_BYTES: u64 = 1 << 20;

impl Client {
    /// Returns the URL of a path without parameters.
    pub(super) fn url(&self, path: &str) -> Result<Url, ApiError> {
        let text = format!("{}{path}", self.inner.base);
        let url = Url::parse(&text).map_err(|error| ClientBuildError::bad_url(&text, error));
        url.map_err(|error| ApiError::Unreachable(error.to_string().into()))
    }

    /// Posts a body and reads the response. `wait_ms` is the time that the server may wait.
    pub(super) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        url: Url,
        body: &B,
        wait_ms: u64,
    ) -> Result<T, ApiError> {
        let request = self.with_body(Method::POST, url, body)?;
        let response = self.send_checked(request, wait_ms).await?;
        self.read_json(response).await
    }

    /// Sends a body with an idempotency key, and reads the response.
    pub(super) async fn send_idempotent<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: &B,
        key: &str,
    ) -> Result<T, ApiError> {
        let key = HeaderValue::try_from(key).map_err(|_| {
            ApiError::Unreadable(
                "the idempotency key contains characters that are not allowed in a header".into(),
            )
        })?;
        let request = self.with_body(method, url, body)?;
        let response = self.send_checked(request.header(IDEMPOTENCY_KEY, key), 0).await?;
        self.read_json(response).await
    }

    fn with_body<B: Serialize>(
        &self,
        method: Method,
        url: Url,
        body: &B,
    ) -> Result<RequestBuilder, ApiError> {
        let body = serde_json::to_vec(body).map_err(|error| {
            ApiError::Unreadable(format!("cannot serialize the request: {error}").into())
        })?;
        let json = HeaderValue::from_static("application/json");
        let request = self.inner.http.request(method, url);
        Ok(request.header(CONTENT_TYPE, json).body(body))
    }

    /// Sends a GET request and reads the response.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, ApiError> {
        let response = self.send_checked(self.get_request(url), 0).await?;
        self.read_json(response).await
    }

    /// Sends a DELETE request and reads the response.
    pub(super) async fn delete<T: DeserializeOwned>(&self, url: Url) -> Result<T, ApiError> {
        let response = self.send_checked(self.inner.http.delete(url), 0).await?;
        self.read_json(response).await
    }

    /// Sends a request. A status other than success is an error.
    pub(super) async fn send_checked(
        &self,
        request: RequestBuilder,
        wait_ms: u64,
    ) -> Result<Response, ApiError> {
        let response = self.send(request, wait_ms).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(read_problem(response, self.inner.timeout).await)
    }

    /// Reads a JSON response.
    pub(super) async fn read_json<T: DeserializeOwned>(
        &self,
        response: Response,
    ) -> Result<T, ApiError> {
        let max_bytes = self.inner.max_response_size.as_bytes();
        let body = read_bounded(response, max_bytes, self.inner.timeout).await?;
        serde_json::from_slice(&body)
            .map_err(|error| ApiError::Unreadable(error.to_string().into()))
    }

    /// Sends a request and returns the response with any status.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
        wait_ms: u64,
    ) -> Result<Response, ApiError> {
        let request = request.build().map_err(to_unreachable)?;
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let bytes = body.map_or(0, <[u8]>::len);
        let response_timeout = self.inner.timeout.saturating_add(Millis::from_ms(wait_ms));
        let max_wait = response_timeout.saturating_add(transfer_allowance(bytes));
        // A timeout of the request would also limit the time for a large response.
        let result = timeout(max_wait.into(), self.execute(request)).await;
        result.map_err(|_| timeout_error())?.map_err(to_unreachable)
    }

    /// Sends a request. If a Unix socket has no server, waits for the next process that serves it.
    async fn execute(&self, request: Request) -> reqwest::Result<Response> {
        if self.inner.socket_wait.is_zero() {
            return self.inner.http.execute(request).await;
        }
        let deadline = Instant::now() + self.inner.socket_wait;
        loop {
            let copy = request.try_clone().filter(|_| Instant::now() < deadline);
            let Some(copy) = copy else {
                return self.inner.http.execute(request).await;
            };
            match self.inner.http.execute(copy).await {
                // Nothing was sent, or it changes nothing to send it again.
                Err(error) if error.is_connect() || request.method() == Method::GET => {
                    sleep(SOCKET_RETRY_INTERVAL).await;
                }
                result => return result,
            }
        }
    }

    /// Creates a GET request.
    pub(super) fn get_request(&self, url: Url) -> RequestBuilder {
        self.inner.http.request(Method::GET, url)
    }
}

/// Converts a query to its parameters, without absent values.
pub(super) fn to_query_pairs<Q: Serialize>(query: &Q) -> Result<Vec<(String, String)>, ApiError> {
    let value = serde_json::to_value(query).map_err(|error| {
        ApiError::Unreadable(format!("cannot serialize the request: {error}").into())
    })?;
    let fields = value.as_object().cloned().unwrap_or_default();
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    let pairs = present.map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name, text)
    });
    Ok(pairs.collect())
}

/// Adds parameters to a URL.
pub(super) fn with_query<K: AsRef<str>, V: AsRef<str>>(
    mut url: Url,
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Url {
    let mut pairs = pairs.into_iter().peekable();
    if pairs.peek().is_some() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    url
}

/// Parameters of a page that starts after an id, with an optional filter.
pub(super) fn page_after(
    limit: u32,
    after: Option<impl ToString>,
    filter: Option<(&'static str, &str)>,
) -> Vec<(&'static str, String)> {
    let mut pairs = vec![("limit", limit.to_string())];
    pairs.extend(filter.map(|(name, value)| (name, value.to_owned())));
    pairs.extend(after.map(|after| ("after", after.to_string())));
    pairs
}

/// Returns the additional time for this many bytes.
pub(super) fn transfer_allowance(bytes: usize) -> Millis {
    const MIB: u64 = 1 << 20;
    TIMEOUT_PER_MIB.saturating_mul(bytes as u64 / MIB)
}

/// Error for a response that is not received in time.
fn timeout_error() -> ApiError {
    ApiError::Unreachable("no response in time".into())
}

/// Reads the body of a response, up to a maximum size and with a timeout that grows with the data
/// received.
async fn read_bounded(
    mut response: Response,
    max_bytes: u64,
    max_wait: Millis,
) -> Result<Vec<u8>, ApiError> {
    let too_large =
        || ApiError::Unreadable(format!("the response exceeds {max_bytes} bytes").into());
    let declared = response.content_length().unwrap_or(0);
    if declared > max_bytes {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(usize::try_from(declared).unwrap_or(0));
    let started = Instant::now();
    loop {
        let deadline =
            started + Duration::from(max_wait.saturating_add(transfer_allowance(body.len())));
        let chunk = timeout_at(deadline, response.chunk()).await;
        let Some(chunk) = chunk.map_err(|_| timeout_error())?.map_err(to_unreachable)? else {
            return Ok(body);
        };
        if body.len() as u64 + chunk.len() as u64 > max_bytes {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
}

/// Reads the problem document of an error response.
pub(super) async fn read_problem(response: Response, max_wait: Millis) -> ApiError {
    let status = response.status();
    let retry_after = parse_retry_after(response.headers());
    let body = match read_bounded(response, MAX_PROBLEM_BYTES, max_wait).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => ApiError::Refused { problem: Box::new(problem), retry_after },
        Err(_) => unexpected_status(status),
    }
}

/// Error for a response without a problem document, for example from a proxy.
fn unexpected_status(status: StatusCode) -> ApiError {
    let text: Text = format!("{status} without an error description").into();
    match status {
        StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => ApiError::Unreachable(text),
        _ => ApiError::Unreadable(text),
    }
}

/// Parses the `Retry-After` header, in seconds.
fn parse_retry_after(headers: &HeaderMap) -> Option<Millis> {
    let secs = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse();
    secs.ok().map(Millis::from_secs)
}

pub(super) fn to_unreachable(error: reqwest::Error) -> ApiError {
    // The URL may contain a capability, so it is removed from the message.
    ApiError::Unreachable(error_chain(&error.without_url()).into())
}

/// Joins an error and its sources in one line.
pub(super) fn error_chain(error: &dyn Error) -> String {
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
