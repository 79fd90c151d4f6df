//! The exchange on the wire: hop by hop through redirects, each checked, and a bounded body.
//!
//! Whatever a tool fetches over HTTP goes through [`Web`], so that the operator's rules hold for all
//! of it.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::request::Request;
use super::response::Answer;
use crate::egress::{CheckedNames, EgressDenied, EgressPolicy};

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

/// The web as far as the operator opens it to tools.
#[derive(Debug)]
pub(crate) struct Web {
    egress: Arc<EgressPolicy>,
    clients: Mutex<Option<Clients>>,
}

/// The clients, made with the first call since reading the machine's certificates takes a while.
#[derive(Debug, Clone)]
struct Clients {
    /// Connects to addresses that the policy lets through.
    checked: Client,
    /// Connects to hosts that a rule names, whatever their address.
    named: Client,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(crate) struct Incoming {
    url: Url,
    response: Response,
}

/// The request of the next hop.
struct Hop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Web {
    /// The web under a policy. Nothing is set up yet.
    pub(crate) fn new(egress: EgressPolicy) -> Self {
        Self {
            egress: Arc::new(egress),
            clients: Mutex::default(),
        }
    }

    /// Sends a request and reads the answer, whose body may have so many bytes once it is unpacked.
    pub(crate) async fn exchange(
        &self,
        request: &Request,
        largest: ByteSize,
    ) -> Result<Answer, TaskError> {
        self.open(request).await?.read(largest).await
    }

    /// Sends a request, through redirects where it follows them.
    pub(crate) async fn open(&self, request: &Request) -> Result<Incoming, TaskError> {
        let clients = self.clients()?;
        let mut hop = Hop {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
        };
        let mut redirects = 0;
        loop {
            let response = self.send(&clients, &hop).await?;
            let next = if request.follow_redirects {
                target(&hop.url, &response)?
            } else {
                None
            };
            let Some(next) = next else {
                let url = hop.url;
                return Ok(Incoming { url, response });
            };
            redirects += 1;
            if redirects > MOST_REDIRECTS {
                return Err(TaskError::new(
                    TaskErrorKind::Limit,
                    format!(
                        "more than {MOST_REDIRECTS} redirects, the last one to {}",
                        shown_bare(&next)
                    ),
                ));
            }
            hop = hop.redirected(next, response.status());
        }
    }

    async fn send(&self, clients: &Clients, hop: &Hop) -> Result<Response, TaskError> {
        let client = self.client(clients, &hop.url)?;
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
    fn client<'c>(&self, clients: &'c Clients, url: &Url) -> Result<&'c Client, TaskError> {
        let host = url.host_str().unwrap_or("");
        let port = url.port_or_known_default().unwrap_or(0);
        if self.egress.names(host, port) {
            return Ok(&clients.named);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            self.egress
                .check(bare, address)
                .map_err(|error| denied(&error))?;
        }
        Ok(&clients.checked)
    }

    fn clients(&self) -> Result<Clients, TaskError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = &*clients {
            return Ok(clients.clone());
        }
        // Another part of the process may have installed it already, which is as good.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let build = |policy: Arc<EgressPolicy>| {
            Client::builder()
                .redirect(Policy::none())
                .no_proxy()
                .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(Arc::new(CheckedNames(policy)))
                .build()
                .map_err(|error| {
                    let message = format!("the HTTP client cannot be set up: {error}");
                    TaskError::new(TaskErrorKind::Unknown, message)
                })
        };
        let made = Clients {
            checked: build(Arc::clone(&self.egress))?,
            named: build(Arc::new(EgressPolicy::Anywhere))?,
        };
        *clients = Some(made.clone());
        Ok(made)
    }
}

impl Incoming {
    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body, unpacked; nothing at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, TaskError> {
        let piece = self.response.chunk().await;
        piece.map_err(|error| failure(&self.url, &error))
    }

    /// Reads the body to its end. The bound is on what comes out of the unpacking, so that a small
    /// answer cannot grow without one.
    pub(crate) async fn read(mut self, largest: ByteSize) -> Result<Answer, TaskError> {
        let announced = self.response.content_length().unwrap_or(0);
        if announced > largest.as_bytes() {
            return Err(too_large(largest));
        }
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            let piece = piece.as_ref();
            if largest.is_exceeded_by(body.len() + piece.len()) {
                return Err(too_large(largest));
            }
            body.extend(piece);
        }
        Ok(Answer {
            status: self.response.status(),
            headers: std::mem::take(self.response.headers_mut()),
            url: shown(&self.url),
            body,
        })
    }
}

/// The error of a body that is over its bound.
pub(crate) fn too_large(largest: ByteSize) -> TaskError {
    let message = format!("the body of the answer is larger than {largest}");
    TaskError::new(TaskErrorKind::Limit, message)
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
        // A server may hand on the query that it was asked with.
        let place = location.split(['?', '#']).next().unwrap_or_default();
        let message = format!("the answer redirects to '{place}', {why}");
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
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have a user.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.to_string()
}

/// The same for people who did not write it: whatever stands behind the path may be a key.
pub(crate) fn shown_bare(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    shown(&url)
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
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    let message = match innermost {
        Some(cause) => format!("the request to {host}{port} failed: {cause}"),
        None => format!("the request to {host}{port} failed"),
    };
    TaskError::new(kind, message)
}
