//! The answer to one request, in a body of its own or among the messages of a stream.

use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use reqwest::header::CONTENT_TYPE;

use super::events::Events;
use crate::http::{Incoming, too_large};
use crate::lenient::lenient_json;

/// What a server answers: a result, or why there is none.
pub(super) type Answered = Result<Json, TaskError>;

/// Reads until the answer to the request of this id is there. A stream is left then, since its
/// server may keep it open.
pub(super) async fn answer(
    mut incoming: Incoming,
    id: &Json,
    largest: ByteSize,
) -> Result<Answered, TaskError> {
    let content_type = incoming.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_stream = content_type.is_some_and(|text| text.starts_with("text/event-stream"));
    if !is_stream {
        let body = incoming.read(largest).await?.into_body();
        return match messages(&body)?
            .iter()
            .find_map(|message| answered(message, id))
        {
            Some(answered) => Ok(answered),
            None => Err(strange("it holds no answer to the request")),
        };
    }
    let mut events = Events::default();
    let mut read = 0;
    while let Some(piece) = incoming.piece().await? {
        let piece = piece.as_ref();
        read += piece.len();
        if largest.is_exceeded_by(read) {
            return Err(too_large(largest));
        }
        for data in events.take_in(piece) {
            let messages = messages(data.as_bytes())?;
            if let Some(answered) = messages.iter().find_map(|message| answered(message, id)) {
                return Ok(answered);
            }
        }
    }
    Err(TaskError::new(
        TaskErrorKind::Connection,
        "the MCP server ended its stream without an answer",
    ))
}

/// The messages of a body: one, or a list of them.
fn messages(body: &[u8]) -> Result<Vec<Json>, TaskError> {
    let body = lenient_json(body).map_err(|why| strange(&why))?;
    Ok(match body {
        Json::List(messages) => messages.as_ref().clone(),
        message => vec![message],
    })
}

/// The answer that a message is, if it is one to the request of this id.
fn answered(message: &Json, id: &Json) -> Option<Answered> {
    if message.get("id") != Some(id) {
        return None;
    }
    if let Some(error) = message.get("error") {
        let text = error.get("message").and_then(Json::as_str);
        let text = text.unwrap_or("the MCP server refused the request");
        return Some(Err(TaskError {
            code: error.get("code").cloned(),
            details: error.get("data").cloned(),
            ..TaskError::new(TaskErrorKind::Transform, text)
        }));
    }
    // A message with this id that has neither is a request of the server's own.
    message.get("result").map(|result| Ok(result.clone()))
}

fn strange(why: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Parse,
        format!("the MCP server's answer cannot be read: {why}"),
    )
}
