//! The exchange on the wire: hop by hop through redirects, each checked, and a bounded body.

use std::error::Error as _;
use std::net::IpAddr;

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};

use super::Clients;
use super::request::Request;
use super::response::Answer;
use crate::egress::{EgressDenied, EgressPolicy};

/// Redirects that are followed.
const MOST_REDIRECTS: usize = 3;

/// Headers that another origin may see as well. Any other may be a credential, whatever its name.
const HARMLESS: [&str; 8] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "content-language",
    "content-type",
    "idempotency-key",
    "user-agent",
];

/// What an exchange needs.
pub(super) struct Exchange<'e> {
    pub(super) egress: &'e EgressPolicy,
    pub(super) clients: &'e Clients,
    pub(super) payload_cap: ByteSize,
}

/// The request of the next hop.
struct Hop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Exchange<'_> {
    /// Sends the request and reads the answer.
    pub(super) async fn run(&self, request: &Request) -> Result<Answer, TaskError> {
        let mut hop = Hop {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
        };
        let mut redirects = 0;
        loop {
            let response = self.send(&hop).await?;
            let next = if request.follow_redirects {
                target(&hop.url, &response)?
            } else {
                None
            };
            let Some(next) = next else {
                return self.read(hop.url, response).await;
            };
            redirects += 1;
            if redirects > MOST_REDIRECTS {
                return Err(TaskError::new(
                    TaskErrorKind::Limit,
                    format!(
                        "more than {MOST_REDIRECTS} redirects, the last one to {}",
                        shown(&next)
                    ),
                ));
            }
            hop = hop.redirected(next, response.status());
        }
    }

    async fn send(&self, hop: &Hop) -> Result<Response, TaskError> {
        let client = self.client(&hop.url)?;
        let mut request = client
            .request(hop.method.clone(), hop.url.clone())
            .headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        request
            .send()
            .await
            .map_err(|error| failure(&hop.url, &error))
    }

    /// The client for a URL. A client checks the addresses of names; an address that is written
    /// out never passes its resolver, so it is checked here.
    fn client(&self, url: &Url) -> Result<&reqwest::Client, TaskError> {
        let host = url.host_str().unwrap_or("");
        let port = url.port_or_known_default().unwrap_or(0);
        if self.egress.names(host, port) {
            return Ok(&self.clients.named);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            self.egress
                .check(bare, address)
                .map_err(|error| denied(&error))?;
        }
        Ok(&self.clients.checked)
    }

    async fn read(&self, url: Url, mut response: Response) -> Result<Answer, TaskError> {
        let too_large = || {
            let most = self.payload_cap;
            let message = format!("the body of the answer is larger than {most}");
            TaskError::new(TaskErrorKind::Limit, message)
        };
        let announced = response.content_length().unwrap_or(0);
        if announced > self.payload_cap.as_bytes() {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| failure(&url, &error))?
        {
            if self.payload_cap.is_exceeded_by(body.len() + chunk.len()) {
                return Err(too_large());
            }
            body.extend(&chunk);
        }
        Ok(Answer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            url: shown(&url),
            body,
        })
    }
}

/// Where an answer sends the client, if it does.
fn target(from: &Url, response: &Response) -> Result<Option<Url>, TaskError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let wrong = |why: &str| {
        let message = format!("the answer redirects to '{location}', {why}");
        TaskError::new(TaskErrorKind::Parse, message)
    };
    let next = from.join(&location).map_err(|_| wrong("which is no URL"))?;
    if !matches!(next.scheme(), "http" | "https") {
        return Err(wrong("which is neither http nor https"));
    }
    Ok(Some(next))
}

impl Hop {
    fn redirected(mut self, next: Url, status: StatusCode) -> Self {
        let drops_body = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if drops_body {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(CONTENT_LENGTH);
        }
        if next.origin() != self.url.origin() {
            let names: Vec<HeaderName> = self.headers.keys().cloned().collect();
            for name in names {
                if !HARMLESS.contains(&name.as_str()) {
                    self.headers.remove(name);
                }
            }
        }
        self.url = next;
        self
    }
}

/// A URL as it may be shown: without user and password.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have a user.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.to_string()
}

fn denied(error: &EgressDenied) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, error.to_string())
}

/// What went wrong, from the innermost cause, which is the one that says something.
fn failure(url: &Url, error: &reqwest::Error) -> TaskError {
    let mut cause = error.source();
    let mut innermost = None;
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<EgressDenied>() {
            return denied(refused);
        }
        innermost = Some(inner);
        cause = inner.source();
    }
    let kind = if error.is_timeout() {
        TaskErrorKind::Timeout
    } else if error.is_builder() {
        TaskErrorKind::Parse
    } else {
        TaskErrorKind::Connection
    };
    let host = url.host_str().unwrap_or("?");
    let message = match innermost {
        Some(cause) => format!("the request to {host} failed: {cause}"),
        None => format!("the request to {host} failed"),
    };
    TaskError::new(kind, message)
}
