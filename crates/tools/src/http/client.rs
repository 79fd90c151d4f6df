//! HTTP exchange: follows redirects hop by hop with a check of each, and bounds the body.
//!
//! All HTTP requests of tools go through [`HttpClient`], so that the operator's rules apply to all
//! of them.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::request::HttpRequest;
use super::response::HttpResponse;
use crate::egress::{CheckedResolver, EgressDenied, EgressPolicy, bare_host};

const MAX_REDIRECTS: usize = 3;

/// Headers that are also sent to another origin after a redirect. Any other header may hold a
/// credential, regardless of its name.
const CROSS_ORIGIN_HEADERS: [&str; 8] = [
    "accept", "accept-charset", "accept-encoding", "accept-language", "content-language",
    "content-type", "idempotency-key", "user-agent",
];

/// HTTP client that applies the operator's egress policy.
#[derive(Debug)]
pub(crate) struct HttpClient {
    egress: Arc<EgressPolicy>,
    /// Created by the first call, since loading the machine's certificates takes a while.
    clients: OnceLock<ClientPair>,
}

#[derive(Debug)]
struct ClientPair {
    /// Connects only to addresses that the policy allows.
    checked: Client,
    /// Connects to hosts that a rule names, at any address.
    named: Client,
}

/// Response whose body has not been read.
#[derive(Debug)]
pub(crate) struct IncomingResponse {
    url: Url,
    response: Response,
}

impl HttpClient {
    /// Creates a client for a policy, without any setup yet.
    pub(crate) fn new(egress: EgressPolicy) -> Self {
        Self { egress: Arc::new(egress), clients: OnceLock::new() }
    }

    /// Sends a request and reads the response, whose decompressed body may have at most `max_size`
    /// bytes.
    pub(crate) async fn send_and_read(
        &self,
        request: &HttpRequest,
        max_size: ByteSize,
    ) -> Result<HttpResponse, TaskError> {
        self.send_request(request).await?.read_body(max_size).await
    }

    /// Sends a request and follows redirects if it allows them.
    pub(crate) async fn send_request(
        &self,
        request: &HttpRequest,
    ) -> Result<IncomingResponse, TaskError> {
        let mut hop = request.clone();
        let mut redirects = 0;
        loop {
            let response = self.send_hop(&hop).await?;
            let next =
                if hop.follow_redirects { redirect_target(&hop.url, &response)? } else { None };
            let Some(next) = next else {
                return Ok(IncomingResponse { url: hop.url, response });
            };
            redirects += 1;
            if redirects > MAX_REDIRECTS {
                let next = strip_credentials_and_query(&next);
                let message =
                    format!("more than {MAX_REDIRECTS} redirects; the last one leads to {next}");
                return Err(TaskError::new(TaskErrorKind::Limit, message));
            }
            hop.redirect_to(next, response.status());
        }
    }

    async fn send_hop(&self, hop: &HttpRequest) -> Result<Response, TaskError> {
        let client = self.select_client(&hop.url)?;
        let mut request =
            client.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| request_error(&hop.url, &error))
    }

    /// Selects the client for a URL. The client checks the addresses of names. A literal address
    /// does not pass through its resolver, so it is checked here.
    fn select_client(&self, url: &Url) -> Result<&Client, TaskError> {
        let clients = self.clients()?;
        let host = url.host_str().unwrap_or("");
        let port = url.port_or_known_default().unwrap_or(0);
        if self.egress.names_host(host, port) {
            return Ok(&clients.named);
        }
        let bare = bare_host(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            self.egress.check_address(bare, address).map_err(|error| egress_denied(&error))?;
        }
        Ok(&clients.checked)
    }

    fn clients(&self) -> Result<&ClientPair, TaskError> {
        if let Some(clients) = self.clients.get() {
            return Ok(clients);
        }
        // Another part of the process may have installed it already, which is fine.
        rustls::crypto::ring::default_provider().install_default().ok();
        let build = |policy: Arc<EgressPolicy>| {
            Client::builder()
                .redirect(Policy::none())
                .no_proxy()
                .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(Arc::new(CheckedResolver(policy)))
                .build()
                .map_err(|error| {
                    let message = format!("the HTTP client cannot be set up: {error}");
                    TaskError::new(TaskErrorKind::Unknown, message)
                })
        };
        let clients = ClientPair {
            checked: build(Arc::clone(&self.egress))?,
            named: build(Arc::new(EgressPolicy::Anywhere))?,
        };
        // If two first calls race, both use the pair that was stored first.
        Ok(self.clients.get_or_init(|| clients))
    }
}

impl IncomingResponse {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the next decompressed chunk of the body, or `None` at its end.
    pub(crate) async fn next_chunk(
        &mut self,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, TaskError> {
        let chunk = self.response.chunk().await;
        chunk.map_err(|error| request_error(&self.url, &error))
    }

    /// Reads the body to its end. The bound applies to the decompressed bytes, so that a small
    /// response cannot expand without limit.
    pub(crate) async fn read_body(mut self, max_size: ByteSize) -> Result<HttpResponse, TaskError> {
        let content_length = self.response.content_length().unwrap_or(0);
        if content_length > max_size.as_bytes() {
            return Err(body_too_large(max_size));
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            let chunk = chunk.as_ref();
            if max_size.is_exceeded_by(body.len() + chunk.len()) {
                return Err(body_too_large(max_size));
            }
            body.extend(chunk);
        }
        Ok(HttpResponse {
            status: self.response.status(),
            headers: std::mem::take(self.response.headers_mut()),
            url: strip_credentials(&self.url),
            body,
        })
    }
}

/// Error for a body that is over its bound.
pub(crate) fn body_too_large(max_size: ByteSize) -> TaskError {
    let message = format!("the response body is larger than {max_size}");
    TaskError::new(TaskErrorKind::Limit, message)
}

fn redirect_target(from: &Url, response: &Response) -> Result<Option<Url>, TaskError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let invalid = |problem: &str| {
        // The location may repeat the query of the request, so it is omitted.
        let address = location.split(['?', '#']).next().unwrap_or_default();
        let message = format!("the response redirects to '{address}', {problem}");
        TaskError::new(TaskErrorKind::Parse, message)
    };
    let next = from.join(&location).map_err(|_| invalid("which is not a URL"))?;
    if !matches!(next.scheme(), "http" | "https") {
        return Err(invalid("which is not an http or https URL"));
    }
    Ok(Some(next))
}

impl HttpRequest {
    /// Changes the request to one for the target of a redirect.
    fn redirect_to(&mut self, next: Url, status: StatusCode) {
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
                if !CROSS_ORIGIN_HEADERS.contains(&name.as_str()) {
                    self.headers.remove(name);
                }
            }
        }
        self.url = next;
    }
}

/// Formats a URL without user and password.
pub(crate) fn strip_credentials(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have a user.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.to_string()
}

/// Formats a URL without user, password, query and fragment, for readers other than its author: the
/// query may hold a key.
pub(crate) fn strip_credentials_and_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    strip_credentials(&url)
}

fn egress_denied(error: &EgressDenied) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, error.to_string())
}

/// Converts a client error. Uses the innermost cause, which is the most specific one.
fn request_error(url: &Url, error: &reqwest::Error) -> TaskError {
    let mut cause = error.source();
    let mut innermost = None;
    while let Some(inner) = cause {
        if let Some(denied) = inner.downcast_ref::<EgressDenied>() {
            return egress_denied(denied);
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
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    let message = match innermost {
        Some(cause) => format!("the request to {host}{port} failed: {cause}"),
        None => format!("the request to {host}{port} failed"),
    };
    TaskError::new(kind, message)
}
