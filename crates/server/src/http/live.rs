//! Events as they happen: frames for browsers, lines for scripts.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use futures_util::stream::unfold;
use noetl_api::execution::EventView;
use noetl_types::ErrorCode;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::access::Identity;
use super::acting::Acting;
use super::answer::of_type;
use super::failure::Failure;
use super::params::Params;
use crate::runtime::Runtime;

/// After so long without an event a comment says that the connection lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// How often it is asked at least whether whoever listens still may. What is known of a token may be two
/// seconds old, and one that was revoked is good for five at most.
const ASKED_AGAIN: Duration = Duration::from_secs(3);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Proxies hold answers back to send them in larger pieces; not these.
const NO_BUFFERING: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-accel-buffering"),
    HeaderValue::from_static("no"),
);

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Server-sent events.
    Frames,
    /// One JSON document a line.
    Lines,
}

impl Form {
    /// What a client asks for.
    pub(super) fn wanted(headers: &HeaderMap) -> Self {
        let is_lines = |value: &HeaderValue| {
            let text = value.to_str().unwrap_or_default();
            text.contains("application/jsonl") || text.contains("application/x-ndjson")
        };
        if headers.get_all(ACCEPT).iter().any(is_lines) {
            Self::Lines
        } else {
            Self::Frames
        }
    }

    const fn media_type(self) -> HeaderValue {
        match self {
            Self::Frames => HeaderValue::from_static("text/event-stream; charset=utf-8"),
            Self::Lines => HeaderValue::from_static("application/jsonl; charset=utf-8"),
        }
    }

    fn begin(self) -> String {
        match self {
            Self::Frames => "retry: 2000\n\n".into(),
            Self::Lines => String::new(),
        }
    }

    fn write(self, text: &mut String, news: &News) -> Result<(), serde_json::Error> {
        // JSON has no line breaks of its own, so one `data:` line holds it.
        let (id, name, data) = match news {
            News::Event { id, event } => {
                let data = serde_json::to_string(event)?;
                (id, frame_name(event.event_type.as_str()), data)
            }
            News::Gap { id, first } => {
                let gap = json!({ "event": "gap", "first_available": first });
                (id, "gap".into(), gap.to_string())
            }
        };
        match self {
            Self::Frames => {
                text.push_str(&format!("id: {id}\nevent: {name}\ndata: {data}\n\n"));
            }
            Self::Lines => {
                text.push_str(&data);
                text.push('\n');
            }
        }
        Ok(())
    }

    fn sign_of_life(self) -> &'static str {
        match self {
            Self::Frames => ": still here\n\n",
            Self::Lines => "\n",
        }
    }

    fn end(self) -> &'static str {
        match self {
            Self::Frames => "event: end\ndata: {}\n\n",
            Self::Lines => "",
        }
    }
}

/// What a frame is called that tells an event. Events that were copied may be called anything: none of
/// them ends a line, or is taken for a frame that tells something else.
fn frame_name(event_type: &str) -> Cow<'_, str> {
    match event_type {
        "end" | "gap" => format!("event.{event_type}").into(),
        _ if event_type.contains(char::is_control) => {
            let shown = event_type.replace(char::is_control, "\u{fffd}");
            shown.into()
        }
        _ => event_type.into(),
    }
}

/// After which event a client wants to go on: the header of a browser that comes back, or a parameter.
pub(super) fn resume_after(
    headers: &HeaderMap,
    params: &mut Params,
) -> Result<Option<String>, Failure> {
    let asked = params.text("last_event_id")?.map(|text| text.to_string());
    match headers.get(LAST_EVENT_ID) {
        None => Ok(asked),
        Some(value) => match value.to_str() {
            Ok("") => Ok(asked),
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(bad_id()),
        },
    }
}

/// An id that no event of this stream has had.
pub(super) fn bad_id() -> Failure {
    Failure::new(
        ErrorCode::BadQuery,
        "the id of the last event is not one that this stream gave",
    )
}

/// What a live answer tells, with the id from which a client may resume behind it.
#[derive(Debug)]
pub(super) enum News {
    /// An event.
    Event { id: String, event: Box<EventView> },
    /// What lay between the last event and the next is not there any more. The first that is, if any.
    Gap { id: String, first: Option<String> },
}

/// Where the events of a live answer come from.
pub(super) trait Source: Send + 'static {
    /// What comes next: nothing new for a while, nothing at all at the end.
    fn next(
        &mut self,
        patience: Duration,
    ) -> impl Future<Output = Result<Option<Vec<News>>, Failure>> + Send;
}

struct Live<S> {
    source: S,
    form: Form,
    /// Who listens.
    identity: Identity,
    runtime: Runtime,
    shutdown: CancellationToken,
    /// Of the request, which is answered long before the answer ends.
    span: Span,
    has_begun: bool,
    is_over: bool,
}

impl<S: Source> Live<S> {
    /// The next bytes of the answer. A source that fails ends it: the client comes back by itself
    /// and goes on behind what it has seen. Whoever is not known any more is told nothing further, and
    /// why when it comes back.
    async fn bytes(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            let begin = self.form.begin();
            if !begin.is_empty() {
                return Some(begin.into());
            }
        }
        let shutdown = self.shutdown.clone();
        match shutdown.run_until_cancelled(self.news()).await? {
            Ok(Some(news)) if news.is_empty() => Some(self.form.sign_of_life().into()),
            Ok(Some(news)) => {
                let mut text = String::new();
                for news in &news {
                    self.form.write(&mut text, news).ok()?;
                }
                Some(text.into())
            }
            Ok(None) => {
                self.is_over = true;
                Some(self.form.end().into())
            }
            Err(failure) if failure.is_refusal() => {
                tracing::info!(
                    ?failure,
                    "a live answer ends: its caller is not known any more"
                );
                None
            }
            Err(failure) => {
                tracing::warn!(?failure, "a live answer ends early");
                None
            }
        }
    }

    /// What comes next, for somebody who still may hear it: nothing new for a while, nothing at all at
    /// the end.
    async fn news(&mut self) -> Result<Option<Vec<News>>, Failure> {
        let due = Instant::now() + SIGN_OF_LIFE;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let news = self.source.next(left.min(ASKED_AGAIN)).await?;
            if let Some(token) = self.identity.token() {
                self.runtime.still_stands(token).await?;
            }
            let is_quiet = news.as_ref().is_some_and(Vec::is_empty);
            if !is_quiet || Instant::now() >= due {
                return Ok(news);
            }
        }
    }
}

/// Answers with events as they come, as long as whoever asked may hear them.
pub(super) fn answer<S: Source>(source: S, form: Form, app: Acting) -> Response {
    let live = Live {
        source,
        form,
        identity: app.identity,
        runtime: app.runtime,
        shutdown: app.shutdown,
        span: Span::current(),
        has_begun: false,
        is_over: false,
    };
    let stream = unfold(live, async |mut live: Live<S>| {
        let span = live.span.clone();
        let bytes = live.bytes().instrument(span).await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), live))
    });
    let mut response = of_type(form.media_type(), Body::from_stream(stream));
    let (name, value) = NO_BUFFERING;
    response.headers_mut().insert(name, value);
    response
}

#[cfg(test)]
mod tests {
    use super::frame_name;

    #[test]
    fn no_event_is_called_what_forges_a_frame() {
        for (called, expected) in [
            ("step.enter", "step.enter"),
            ("äöü x", "äöü x"),
            (
                "a\nevent: end\r\n\ndata: {}",
                "a\u{fffd}event: end\u{fffd}\u{fffd}\u{fffd}data: {}",
            ),
            ("end", "event.end"),
            ("gap", "event.gap"),
        ] {
            assert_eq!(frame_name(called), expected);
        }
    }
}
