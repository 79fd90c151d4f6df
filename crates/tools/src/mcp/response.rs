//! Response to one request, as a separate body or as one of the messages of a stream.

use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use reqwest::header::CONTENT_TYPE;

use super::event_stream::EventStreamParser;
use crate::http::{IncomingResponse, body_too_large};
use crate::lenient::lenient_json;

/// Result or error that the server returns for a request.
pub(super) type RpcResult = Result<Json, TaskError>;

/// Reads until the response to the request with this id arrives. Then stops reading a stream, since
/// the server may keep it open.
pub(super) async fn read_response(
    mut incoming: IncomingResponse,
    id: &Json,
    max_size: ByteSize,
) -> Result<RpcResult, TaskError> {
    let content_type = incoming.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_stream = content_type.is_some_and(|text| text.starts_with("text/event-stream"));
    if !is_stream {
        let body = incoming.read_body(max_size).await?.into_body();
        return match parse_messages(&body)?.iter().find_map(|message| match_response(message, id)) {
            Some(result) => Ok(result),
            None => Err(unparseable_response("it contains no response to the request")),
        };
    }
    let mut parser = EventStreamParser::default();
    let mut read_bytes = 0;
    while let Some(chunk) = incoming.next_chunk().await? {
        let chunk = chunk.as_ref();
        read_bytes += chunk.len();
        if max_size.is_exceeded_by(read_bytes) {
            return Err(body_too_large(max_size));
        }
        for data in parser.parse_chunk(chunk) {
            let messages = parse_messages(data.as_bytes())?;
            if let Some(result) = messages.iter().find_map(|message| match_response(message, id)) {
                return Ok(result);
            }
        }
    }
    Err(TaskError::new(
        TaskErrorKind::Connection,
        "the MCP server ended its stream without a response",
    ))
}

/// Parses the messages of a body: one, or a list of them.
fn parse_messages(body: &[u8]) -> Result<Vec<Json>, TaskError> {
    let body = lenient_json(body).map_err(|reason| unparseable_response(&reason))?;
    Ok(match body {
        Json::List(messages) => messages.as_ref().clone(),
        message => vec![message],
    })
}

/// Returns the result of a message if it is the response to the request with this id.
fn match_response(message: &Json, id: &Json) -> Option<RpcResult> {
    if message.get("id") != Some(id) {
        return None;
    }
    if let Some(error) = message.get("error") {
        let text = error.get("message").and_then(Json::as_str);
        let text = text.unwrap_or("the MCP server rejected the request");
        return Some(Err(TaskError {
            code: error.get("code").cloned(),
            details: error.get("data").cloned(),
            ..TaskError::new(TaskErrorKind::Transform, text)
        }));
    }
    // A message with this id that has neither is a request from the server.
    message.get("result").map(|result| Ok(result.clone()))
}

fn unparseable_response(reason: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Parse,
        format!("the MCP server's response cannot be parsed: {reason}"),
    )
}
