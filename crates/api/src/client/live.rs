//! Events as they happen: of one run, or of all.

use std::time::Duration;

use noetl_types::{ExecutionId, Seq, Text};
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use reqwest::{Response, Url};

use super::call::unreachable;
use super::frames::{Frame, Frames};
use super::{Client, call};
use crate::error::ApiError;
use crate::execution::EventView;
use crate::paths;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The server gives a sign of life every fifteen seconds; after three of them it is gone.
const SILENCE: Duration = Duration::from_secs(45);

/// Events as they happen.
///
/// It ends with the connection; whoever wants more comes back with the last event that it saw.
#[derive(Debug)]
pub struct LiveLog {
    response: Response,
    frames: Frames,
    last_id: Option<String>,
    is_over: bool,
    /// Whether something is missing that is to be told before what comes next.
    has_gap: bool,
}

/// What a live log says.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// This happened; perhaps nothing, and the connection lives.
    Events(Vec<EventView>),
    /// The run has ended, and all of it was told.
    End,
}

impl Client {
    /// Follows the log of a run behind an event.
    pub async fn follow(
        &self,
        execution_id: ExecutionId,
        after: Option<Seq>,
    ) -> Result<LiveLog, ApiError> {
        let url = self.of(paths::EXECUTION_EVENTS_STREAM, execution_id)?;
        self.listen(url, after.map(|after| after.to_string())).await
    }

    /// Follows the events of all runs behind one, by the id that it came with; without one, from now
    /// on.
    pub async fn follow_all(&self, after: Option<String>) -> Result<LiveLog, ApiError> {
        self.listen(self.url(paths::EVENTS_STREAM)?, after).await
    }

    async fn listen(&self, url: Url, after: Option<String>) -> Result<LiveLog, ApiError> {
        let frames = HeaderValue::from_static("text/event-stream");
        let mut request = self.request(url).header(ACCEPT, frames);
        if let Some(after) = &after {
            request = request.header(LAST_EVENT_ID, after);
        }
        // A time limit of the request would be one for the whole of what follows.
        let patience = Duration::from_millis(self.inner.timeout.as_ms());
        let response = match tokio::time::timeout(patience, request.send()).await {
            Ok(response) => response.map_err(unreachable)?,
            Err(_) => return Err(silent()),
        };
        if !response.status().is_success() {
            return Err(call::refusal(response, self.inner.timeout).await);
        }
        let most = usize::try_from(self.inner.max_answer.as_bytes()).unwrap_or(usize::MAX);
        Ok(LiveLog {
            response,
            frames: Frames::new(most),
            last_id: after,
            is_over: false,
            has_gap: false,
        })
    }
}

impl LiveLog {
    /// The id of the last event that was told, to come back with.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// What comes next. An end of the connection before that of the run is an error that passes. Where
    /// events are missing, that is an error once; whoever asks again, or comes back, is told the rest.
    pub async fn next(&mut self) -> Result<News, ApiError> {
        if std::mem::take(&mut self.has_gap) {
            return Err(gap());
        }
        if self.is_over {
            return Ok(News::End);
        }
        let chunk = match tokio::time::timeout(SILENCE, self.response.chunk()).await {
            Ok(chunk) => chunk.map_err(unreachable)?,
            Err(_) => return Err(silent()),
        };
        let Some(chunk) = chunk else {
            let text = "the server has ended the connection";
            return Err(ApiError::Unreachable(text.into()));
        };
        let mut events = Vec::new();
        for frame in self.frames.take(&chunk)? {
            match frame.event.as_str() {
                "end" => self.is_over = true,
                "gap" => {
                    self.has_gap = true;
                    self.last_id = frame.id.or(self.last_id.take());
                }
                _ => {
                    events.push(event(&frame)?);
                    self.last_id = frame.id.or(self.last_id.take());
                }
            }
        }
        if events.is_empty() && std::mem::take(&mut self.has_gap) {
            return Err(gap());
        }
        Ok(if self.is_over && events.is_empty() {
            News::End
        } else {
            News::Events(events)
        })
    }
}

fn event(frame: &Frame) -> Result<EventView, ApiError> {
    serde_json::from_str(&frame.data)
        .map_err(|error| ApiError::Unreadable(Text::from(error.to_string())))
}

fn gap() -> ApiError {
    let text = "events between the last one and the next are not kept any more";
    ApiError::Unreadable(text.into())
}

fn silent() -> ApiError {
    ApiError::Unreachable("the server is silent".into())
}
