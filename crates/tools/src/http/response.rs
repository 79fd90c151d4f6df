//! Interpretation of a response: data, error and retry delay.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8};
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};

use super::request::ResponseType;
use crate::call::ToolOutcome;
use crate::lenient::lenient_json;

const MAX_ERROR_URL_CHARS: usize = 200;

/// Response with its complete body.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: String,
    pub(super) body: Vec<u8>,
}

impl HttpResponse {
    pub(super) fn to_outcome(&self, response_type: ResponseType, elapsed: Duration) -> ToolOutcome {
        let headers = self.headers();
        let body = self.body(response_type);
        let status = Json::from(u32::from(self.status.as_u16()));
        let elapsed = Json::from_f64(elapsed.as_secs_f64()).unwrap_or_default();
        let data = Json::object([
            ("status_code", status.clone()),
            ("headers", headers.clone()),
            ("data", body.clone()),
            ("body", body),
            ("url", Json::from(&*self.url)),
            ("elapsed", elapsed),
        ]);
        let http = Json::object([("status", status), ("headers", headers)]);
        ToolOutcome {
            data,
            error: self.status_error(),
            extras: JsonMap::from([("http".into(), http)]),
            retry_after: self.retry_after(),
        }
    }

    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Returns the error that the status represents, if any.
    pub(crate) fn status_error(&self) -> Option<TaskError> {
        let mut error = error_from_status(self.status)?;
        // In a loop the address identifies the failed request. The query is omitted since it may
        // hold a key. A truncated address is marked, so that redaction can recognize a partial
        // secret.
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let mut display_url: String = path.chars().take(MAX_ERROR_URL_CHARS).collect();
        if display_url.len() < path.len() {
            display_url.push('…');
        }
        error.message = format!("{} from {display_url}", error.message).into();
        Some(error)
    }

    /// Headers by lower-case name. Values of a repeated name are joined.
    fn headers(&self) -> Json {
        let values = |name| {
            let values = self.headers.get_all(name).iter();
            let texts: Vec<_> =
                values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            texts.join(", ")
        };
        Json::object(self.headers.keys().map(|name| (name.as_str(), Json::from(values(name)))))
    }

    fn body(&self, response_type: ResponseType) -> Json {
        match response_type {
            ResponseType::Binary => Json::object([
                ("base64", Json::from(STANDARD.encode(&self.body))),
                ("bytes", Json::from(self.body.len())),
            ]),
            ResponseType::Text => self.decode_text(),
            ResponseType::Json => lenient_json(&self.body).unwrap_or_else(|_| self.decode_text()),
        }
    }

    fn decode_text(&self) -> Json {
        let content_type = self.headers.get(CONTENT_TYPE);
        let charset = content_type.and_then(|value| value.to_str().ok()).and_then(parse_charset);
        let (text, _, _) = charset.unwrap_or(UTF_8).decode(&self.body);
        Json::from(&*text)
    }

    /// Delay that the server requests. A date is compared with the server's own clock, so that a
    /// wrong clock on either side has no effect.
    fn retry_after(&self) -> Option<Millis> {
        if !matches!(self.status.as_u16(), 429 | 503) {
            return None;
        }
        let text = |name| self.headers.get(name)?.to_str().ok().map(str::trim);
        let requested = text(RETRY_AFTER)?;
        if let Ok(seconds) = requested.parse::<u64>() {
            return Some(Millis::from(Duration::from_secs(seconds)));
        }
        let until = httpdate::parse_http_date(requested).ok()?;
        let now = httpdate::parse_http_date(text(DATE)?).ok()?;
        // A time in the past means no delay.
        let delay = until.duration_since(now).unwrap_or_default();
        Some(Millis::from(delay))
    }
}

/// Returns the error of a status, or `None` for a success.
pub(crate) fn error_from_status(status: StatusCode) -> Option<TaskError> {
    if status.is_success() {
        return None;
    }
    let status = status.as_u16();
    let kind = TaskErrorKind::from_http_status(status).unwrap_or(TaskErrorKind::Unknown);
    Some(TaskError {
        code: Some(Json::from(u32::from(status))),
        status: Some(status),
        ..TaskError::new(kind, format!("HTTP {status} response"))
    })
}

fn parse_charset(content_type: &str) -> Option<&'static Encoding> {
    content_type
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
        .and_then(|(_, label)| Encoding::for_label(label.trim().trim_matches('"').as_bytes()))
}
