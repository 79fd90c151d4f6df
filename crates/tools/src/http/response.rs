//! What an answer means: data, error, and how long to wait.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8};
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};

use super::request::ResponseType;
use crate::call::Outcome;
use crate::lenient::lenient_json;

/// Characters of an address that an error tells.
const LONGEST_TOLD: usize = 200;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The outcome of the task.
    pub(super) fn outcome(&self, wanted: ResponseType, elapsed: Duration) -> Outcome {
        let headers = self.headers();
        let body = self.body(wanted);
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
        Outcome {
            data,
            error: self.error(),
            extras: JsonMap::from([("http".into(), http)]),
            retry_after: self.retry_after(),
        }
    }

    /// The body, as it is.
    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Why the answer is a failure, if it is one.
    pub(crate) fn error(&self) -> Option<TaskError> {
        let mut error = refusal(self.status)?;
        // In a loop it is the address that tells one answer from the others. What stands behind the
        // path may be a key, and what is cut says so: a part of a secret is known by that.
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let mut told: String = path.chars().take(LONGEST_TOLD).collect();
        if told.len() < path.len() {
            told.push('…');
        }
        error.message = format!("{} from {told}", error.message).into();
        Some(error)
    }

    /// Names in lower case; a name that comes more than once has its values joined.
    fn headers(&self) -> Json {
        let values = |name| {
            let values = self.headers.get_all(name).iter();
            let texts: Vec<_> = values
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            texts.join(", ")
        };
        Json::object(
            self.headers
                .keys()
                .map(|name| (name.as_str(), Json::from(values(name)))),
        )
    }

    fn body(&self, wanted: ResponseType) -> Json {
        match wanted {
            ResponseType::Binary => Json::object([
                ("base64", Json::from(STANDARD.encode(&self.body))),
                ("bytes", Json::from(self.body.len())),
            ]),
            ResponseType::Text => self.text(),
            ResponseType::Json => lenient_json(&self.body).unwrap_or_else(|_| self.text()),
        }
    }

    fn text(&self) -> Json {
        let content_type = self.headers.get(CONTENT_TYPE);
        let charset = content_type
            .and_then(|value| value.to_str().ok())
            .and_then(charset);
        let (text, _, _) = charset.unwrap_or(UTF_8).decode(&self.body);
        Json::from(&*text)
    }

    /// How long the server asks to wait. A date is measured by the server's own clock, so that a
    /// wrong one on either side does no harm.
    fn retry_after(&self) -> Option<Millis> {
        if !matches!(self.status.as_u16(), 429 | 503) {
            return None;
        }
        let text = |name| self.headers.get(name)?.to_str().ok().map(str::trim);
        let asked = text(RETRY_AFTER)?;
        if let Ok(seconds) = asked.parse::<u64>() {
            return Some(Millis::from(Duration::from_secs(seconds)));
        }
        let until = httpdate::parse_http_date(asked).ok()?;
        let now = httpdate::parse_http_date(text(DATE)?).ok()?;
        // A moment that has passed means at once.
        let pause = until.duration_since(now).unwrap_or_default();
        Some(Millis::from(pause))
    }
}

/// Why a status means failure, if it does.
pub(crate) fn refusal(status: StatusCode) -> Option<TaskError> {
    if status.is_success() {
        return None;
    }
    let status = status.as_u16();
    let kind = TaskErrorKind::of_http_status(status).unwrap_or(TaskErrorKind::Unknown);
    Some(TaskError {
        code: Some(Json::from(u32::from(status))),
        status: Some(status),
        ..TaskError::new(kind, format!("HTTP {status} response"))
    })
}

fn charset(content_type: &str) -> Option<&'static Encoding> {
    content_type
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
        .and_then(|(_, label)| Encoding::for_label(label.trim().trim_matches('"').as_bytes()))
}
