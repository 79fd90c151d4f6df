//! Live event responses: server-sent events for browsers, JSON lines for scripts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use futures_util::stream::unfold;
use noetl_api::execution::EventView;
use noetl_api::output::OutputView;
use noetl_types::ErrorCode;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::http_error::HttpError;
use super::json_response::typed_response;
use super::middleware::access::CallerIdentity;
use super::params::QueryParams;
use super::request_context::RequestContext;
use crate::services::Identities;

/// Interval of keep-alive comments while there are no events.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum interval between checks that the token of the caller is still valid. Cached tokens may be
/// two seconds old, and a revoked token must stop working within five seconds.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(3);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Disables response buffering of proxies.
const NO_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Format of live events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamFormat {
    /// Server-sent events.
    ServerSentEvents,
    /// One JSON document per line.
    JsonLines,
}

impl StreamFormat {
    /// Chooses the format by the `Accept` header.
    pub(super) fn from_accept(headers: &HeaderMap) -> Self {
        let accepts_lines = |value: &HeaderValue| {
            let text = value.to_str().unwrap_or_default();
            text.contains("application/jsonl") || text.contains("application/x-ndjson")
        };
        if headers.get_all(ACCEPT).iter().any(accepts_lines) {
            Self::JsonLines
        } else {
            Self::ServerSentEvents
        }
    }

    const fn media_type(self) -> HeaderValue {
        match self {
            Self::ServerSentEvents => HeaderValue::from_static("text/event-stream; charset=utf-8"),
            Self::JsonLines => HeaderValue::from_static("application/jsonl; charset=utf-8"),
        }
    }

    fn preamble(self) -> String {
        match self {
            Self::ServerSentEvents => "retry: 2000\n\n".into(),
            Self::JsonLines => String::new(),
        }
    }

    fn write_item(self, text: &mut String, item: &LiveItem) -> Result<(), serde_json::Error> {
        // Compact JSON has no line breaks, so one `data:` line is enough.
        let (id, name, data) = match item {
            LiveItem::Event { id, event } => {
                let data = serde_json::to_string(event)?;
                (id.clone(), frame_name(event.event_type.as_str()), data)
            }
            LiveItem::Output(chunk) => {
                (chunk.position.to_string(), "output".into(), serde_json::to_string(chunk)?)
            }
            LiveItem::Gap { id, first } => {
                let gap = json!({ "event": "gap", "first_available": first });
                (id.clone(), "gap".into(), gap.to_string())
            }
        };
        match self {
            Self::ServerSentEvents => {
                text.push_str(&format!("id: {id}\nevent: {name}\ndata: {data}\n\n"));
            }
            Self::JsonLines => {
                text.push_str(&data);
                text.push('\n');
            }
        }
        Ok(())
    }

    fn keep_alive(self) -> &'static str {
        match self {
            Self::ServerSentEvents => ": still here\n\n",
            Self::JsonLines => "\n",
        }
    }

    fn end_marker(self) -> &'static str {
        match self {
            Self::ServerSentEvents => "event: end\ndata: {}\n\n",
            Self::JsonLines => "",
        }
    }
}

/// Name of the SSE frame of an event. The types of copied events are arbitrary text, so line breaks
/// are replaced, and names of control frames get a prefix: an event must not forge another frame.
fn frame_name(event_type: &str) -> Cow<'_, str> {
    match event_type {
        "end" | "gap" => format!("event.{event_type}").into(),
        _ if event_type.contains(char::is_control) => {
            let printable = event_type.replace(char::is_control, "\u{fffd}");
            printable.into()
        }
        _ => event_type.into(),
    }
}

/// Id of the event to resume after: the header of a reconnecting browser, or the query parameter.
pub(super) fn requested_event_id(
    headers: &HeaderMap,
    params: &mut QueryParams,
) -> Result<Option<String>, HttpError> {
    let from_query = params.text_param("last_event_id")?.map(|text| text.to_string());
    match headers.get(LAST_EVENT_ID) {
        None => Ok(from_query),
        Some(value) => match value.to_str() {
            Ok("") => Ok(from_query),
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(invalid_event_id()),
        },
    }
}

/// Creates the error for a resume id that this stream never issued.
pub(super) fn invalid_event_id() -> HttpError {
    HttpError::new(ErrorCode::BadQuery, "invalid last event id: use an id that this stream sent")
}

/// Item of a live response, with the id to resume after it.
#[derive(Debug)]
pub(super) enum LiveItem {
    /// An event.
    Event { id: String, event: Box<EventView> },
    /// Output of a task. Its id is its position.
    Output(OutputView),
    /// Events between the previous item and the next one were deleted by retention. `first` is the
    /// id of the first available event, if any.
    Gap { id: String, first: Option<String> },
}

/// Source of the events of a live response.
pub(super) trait LiveSource: Send + 'static {
    /// Waits for the next items. Returns an empty list on timeout, and `None` at the end.
    fn next_items(
        &mut self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Vec<LiveItem>>, HttpError>> + Send;
}

struct LiveStream<S> {
    source: S,
    format: StreamFormat,
    identity: CallerIdentity,
    identities: Arc<Identities>,
    shutdown: CancellationToken,
    /// Span of the request. The response body outlives the handler.
    span: Span,
    has_begun: bool,
    has_ended: bool,
}

impl<S: LiveSource> LiveStream<S> {
    /// Returns the next bytes of the response. A failure of the source ends the response: the
    /// client reconnects and resumes after the last event. If the token of the caller is no longer
    /// valid, the response ends too, and the client gets the reason when it reconnects.
    async fn next_bytes(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            let preamble = self.format.preamble();
            if !preamble.is_empty() {
                return Some(preamble.into());
            }
        }
        let shutdown = self.shutdown.clone();
        match shutdown.run_until_cancelled(self.next_valid_items()).await? {
            Ok(Some(items)) if items.is_empty() => Some(self.format.keep_alive().into()),
            Ok(Some(items)) => {
                let mut text = String::new();
                for item in &items {
                    self.format.write_item(&mut text, item).ok()?;
                }
                Some(text.into())
            }
            Ok(None) => {
                self.has_ended = true;
                Some(self.format.end_marker().into())
            }
            Err(error) if error.is_access_denied() => {
                tracing::info!(
                    ?error,
                    "live response ends: the credential of the caller is no longer valid"
                );
                None
            }
            Err(error) => {
                tracing::warn!(?error, "live response ends early");
                None
            }
        }
    }

    /// Waits for the next items and checks that the token of the caller is still valid. Returns an
    /// empty list if a keep-alive is due, and `None` at the end.
    async fn next_valid_items(&mut self) -> Result<Option<Vec<LiveItem>>, HttpError> {
        let keep_alive_at = Instant::now() + KEEP_ALIVE_INTERVAL;
        loop {
            let remaining = keep_alive_at.saturating_duration_since(Instant::now());
            let items = self.source.next_items(remaining.min(TOKEN_CHECK_INTERVAL)).await?;
            if let Some(token) = self.identity.token_reference() {
                self.identities.recheck_token(token).await?;
            }
            let is_quiet = items.as_ref().is_some_and(Vec::is_empty);
            if !is_quiet || Instant::now() >= keep_alive_at {
                return Ok(items);
            }
        }
    }
}

/// Creates a response that streams events until the end, shutdown, or revocation of the token.
pub(super) fn live_response<S: LiveSource>(
    source: S,
    format: StreamFormat,
    context: RequestContext,
) -> Response {
    let live_stream = LiveStream {
        source,
        format,
        identity: context.identity,
        identities: Arc::clone(&context.services.identities),
        shutdown: context.shutdown,
        span: Span::current(),
        has_begun: false,
        has_ended: false,
    };
    let stream = unfold(live_stream, async |mut live_stream: LiveStream<S>| {
        let span = live_stream.span.clone();
        let bytes = live_stream.next_bytes().instrument(span).await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), live_stream))
    });
    let mut response = typed_response(format.media_type(), Body::from_stream(stream));
    let (name, value) = NO_BUFFERING;
    response.headers_mut().insert(name, value);
    response
}

#[cfg(test)]
mod tests;
