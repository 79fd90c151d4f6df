//! Live events of one execution, or of all.

use std::time::Duration;

use noetl_types::{ExecutionId, Seq, Text};
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use reqwest::{Response, Url};

use super::call::to_unreachable;
use super::sse::{SseFrame, SseParser};
use super::{Client, call};
use crate::error::ApiError;
use crate::execution::EventView;
use crate::paths;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum silence of the server. It sends a keepalive every fifteen seconds.
const MAX_SILENCE: Duration = Duration::from_secs(45);

/// A stream of live events.
///
/// It ends with the connection. To continue, open a new stream after the last event that was
/// received.
#[derive(Debug)]
pub struct LiveEventStream {
    response: Response,
    parser: SseParser,
    last_id: Option<String>,
    has_ended: bool,
    /// True if events were lost, which must be reported before the next events.
    has_gap: bool,
}

/// An update of an event stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamUpdate {
    /// New events; empty for a keepalive.
    Events(Vec<EventView>),
    /// The execution has ended, and all its events were received.
    End,
}

impl Client {
    /// Streams the events of an execution after a sequence number.
    pub async fn follow_execution(
        &self,
        execution_id: ExecutionId,
        after: Option<Seq>,
    ) -> Result<LiveEventStream, ApiError> {
        let url = self.execution_url(paths::EXECUTION_EVENTS_STREAM, execution_id)?;
        self.open_event_stream(url, after.map(|after| after.to_string())).await
    }

    /// Streams the events of all executions after the event with this id, or from now on.
    pub async fn follow_all_executions(
        &self,
        after: Option<String>,
    ) -> Result<LiveEventStream, ApiError> {
        self.open_event_stream(self.url(paths::EVENTS_STREAM)?, after).await
    }

    async fn open_event_stream(
        &self,
        url: Url,
        after: Option<String>,
    ) -> Result<LiveEventStream, ApiError> {
        let parser = HeaderValue::from_static("text/event-stream");
        let mut request = self.get_request(url).header(ACCEPT, parser);
        if let Some(after) = &after {
            request = request.header(LAST_EVENT_ID, after);
        }
        // A timeout of the request would also limit the duration of the stream.
        let max_wait = Duration::from_millis(self.inner.timeout.as_ms());
        let response = match tokio::time::timeout(max_wait, request.send()).await {
            Ok(response) => response.map_err(to_unreachable)?,
            Err(_) => return Err(silence_error()),
        };
        if !response.status().is_success() {
            return Err(call::read_problem(response, self.inner.timeout).await);
        }
        let max_frame_bytes =
            usize::try_from(self.inner.max_response_size.as_bytes()).unwrap_or(usize::MAX);
        Ok(LiveEventStream {
            response,
            parser: SseParser::new(max_frame_bytes),
            last_id: after,
            has_ended: false,
            has_gap: false,
        })
    }
}

impl LiveEventStream {
    /// Returns the id of the last received event, to resume after.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next update. If the connection ends before the execution does, the error is
    /// retryable. Lost events are reported as an error once. The next call, or a new stream,
    /// returns the events after the gap.
    pub async fn next(&mut self) -> Result<StreamUpdate, ApiError> {
        if std::mem::take(&mut self.has_gap) {
            return Err(gap_error());
        }
        if self.has_ended {
            return Ok(StreamUpdate::End);
        }
        let chunk = match tokio::time::timeout(MAX_SILENCE, self.response.chunk()).await {
            Ok(chunk) => chunk.map_err(to_unreachable)?,
            Err(_) => return Err(silence_error()),
        };
        let Some(chunk) = chunk else {
            let text = "the server closed the connection";
            return Err(ApiError::Unreachable(text.into()));
        };
        let mut events = Vec::new();
        for frame in self.parser.push_bytes(&chunk)? {
            match frame.event.as_str() {
                "end" => self.has_ended = true,
                "gap" => {
                    self.has_gap = true;
                    self.last_id = frame.id.or(self.last_id.take());
                }
                _ => {
                    events.push(parse_event_view(&frame)?);
                    self.last_id = frame.id.or(self.last_id.take());
                }
            }
        }
        if events.is_empty() && std::mem::take(&mut self.has_gap) {
            return Err(gap_error());
        }
        Ok(if self.has_ended && events.is_empty() {
            StreamUpdate::End
        } else {
            StreamUpdate::Events(events)
        })
    }
}

fn parse_event_view(frame: &SseFrame) -> Result<EventView, ApiError> {
    serde_json::from_str(&frame.data)
        .map_err(|error| ApiError::Unreadable(Text::from(error.to_string())))
}

fn gap_error() -> ApiError {
    let text = "some events after the last one received are no longer available";
    ApiError::Unreadable(text.into())
}

fn silence_error() -> ApiError {
    ApiError::Unreachable("no data from the server in time".into())
}
