//! Extractors of path parameters, query parameters and headers.

use std::convert::Infallible;
use std::fmt;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use noetl_types::limits::PageLimit;
use noetl_types::trace::TraceContext;
use noetl_types::{CatalogId, ErrorCode, EventId, ExecutionId, Json, Text};

use super::http_error::HttpError;
use super::request_context::AppState;

/// Header with the idempotency key of a request.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Length of the version, the two ids and the flags of a `traceparent`.
const TRACEPARENT_BYTES: usize = 55;
/// Maximum length of a `tracestate` header.
const MAX_TRACESTATE_BYTES: usize = 512;

/// Defines extractors of an id in the path, and of the text that follows it. An invalid id fails
/// with `bad_id`.
macro_rules! path_extractors {
    ($($(#[$doc:meta])* $name:ident($kind:literal $id:ty $(, $text:ident)?);)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(super) struct $name(pub(super) $id $(, pub(super) path_extractors!(@text $text))?);

        impl FromRequestParts<AppState> for $name {
            type Rejection = HttpError;

            async fn from_request_parts(
                parts: &mut Parts,
                app: &AppState,
            ) -> Result<Self, HttpError> {
                let invalid_id = |reason: &dyn fmt::Display| {
                    let text = format!(concat!("invalid ", $kind, " id: {}"), reason);
                    HttpError::new(ErrorCode::BadId, text)
                };
                let Path((id, $($text,)?)) =
                    Path::<(String, $(path_extractors!(@text $text),)?)>::from_request_parts(parts, app)
                        .await
                        .map_err(|error| invalid_id(&error))?;
                Ok(Self(id.parse().map_err(|error| invalid_id(&error))? $(, $text)?))
            }
        }
    )+};
    (@text $text:ident) => { String };
}

path_extractors! {
    /// Extractor of the execution id in the path.
    PathExecutionId("execution" ExecutionId);
    /// Extractor of the execution id and the variable name in the path.
    PathVariable("execution" ExecutionId, name);
    /// Extractor of the catalog id in the path.
    PathCatalogId("catalog" CatalogId);
    /// Extractor of the catalog id and the keychain entry in the path.
    PathKeychainEntry("catalog" CatalogId, name);
    /// Extractor of the event id in the path.
    PathEventId("event" EventId);
}

/// Extractor of the W3C trace context headers.
#[derive(Debug, Clone)]
pub(super) struct TraceHeaders(pub(super) Option<Json>);

impl FromRequestParts<AppState> for TraceHeaders {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Infallible> {
        let text = |name: &str| parts.headers.get(name)?.to_str().ok();
        // An invalid `traceparent` is ignored, as the W3C standard requires, and so are the parts
        // that later versions append.
        let parent = text("traceparent").filter(|text| TraceContext::parse(text).is_some());
        let parent = parent.map(|text| text.get(..TRACEPARENT_BYTES).unwrap_or(text));
        Ok(Self(parent.map(|parent| {
            let state = text("tracestate").filter(|text| text.len() <= MAX_TRACESTATE_BYTES);
            let state = state.map(|state| ("tracestate", Json::from(state)));
            let parent = ("traceparent", Json::from(parent));
            Json::object([parent].into_iter().chain(state))
        })))
    }
}

/// Extractor of the idempotency key.
#[derive(Debug, Clone)]
pub(super) struct IdempotencyKeyHeader(Option<String>);

impl IdempotencyKeyHeader {
    pub(super) fn key_text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromRequestParts<AppState> for IdempotencyKeyHeader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Infallible> {
        let key = parts.headers.get(IDEMPOTENCY_KEY);
        let key = key.map(|key| key.to_str().unwrap_or_default().to_owned());
        Ok(Self(key))
    }
}

/// Extractor of the only parameter of the path, as text.
#[derive(Debug, Clone)]
pub(super) struct PathText(pub(super) String);

impl FromRequestParts<AppState> for PathText {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, HttpError> {
        let Path(text) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| HttpError::new(ErrorCode::BadQuery, error.to_string()))?;
        Ok(Self(text))
    }
}

/// Extractor of the query parameters. Reading a parameter removes it.
#[derive(Debug)]
pub(super) struct QueryParams(Vec<(String, String)>);

impl FromRequestParts<AppState> for QueryParams {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, HttpError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| HttpError::new(ErrorCode::BadQuery, error.to_string()))?;
        Ok(Self(pairs))
    }
}

impl QueryParams {
    /// Returns a parameter as text.
    pub(super) fn text_param(&mut self, name: &str) -> Result<Option<Text>, HttpError> {
        self.parse_param(name, |value| Text::new(value))
    }

    /// Parses a parameter.
    pub(super) fn parse_param<T, E: fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, HttpError> {
        let Some(value) = self.take_param(name)? else {
            return Ok(None);
        };
        match parse(&value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(HttpError::new(ErrorCode::BadQuery, format!("{name}: {error}"))),
        }
    }

    /// Parses a boolean parameter.
    pub(super) fn bool_param(&mut self, name: &str) -> Result<Option<bool>, HttpError> {
        self.parse_param(name, |value| match value {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" => Ok(false),
            _ => Err("expected `true` or `false`"),
        })
    }

    /// Parses an integer parameter and checks its range.
    pub(super) fn number_param(
        &mut self,
        name: &str,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, HttpError> {
        let Some(number) = self.parse_param(name, str::parse::<i64>)? else {
            return Ok(None);
        };
        match u32::try_from(number) {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => Err(HttpError::new(
                ErrorCode::OutOfRange,
                format!("{name} = {number} is out of range {}..{}", bounds.start(), bounds.end()),
            )),
        }
    }

    /// Parses the page limit of a list.
    pub(super) fn page_limit(
        &mut self,
        name: &str,
        default: PageLimit,
    ) -> Result<PageLimit, HttpError> {
        Ok(self.optional_page_limit(name)?.unwrap_or(default))
    }

    /// Parses the page limit of a list, if it is set.
    pub(super) fn optional_page_limit(
        &mut self,
        name: &str,
    ) -> Result<Option<PageLimit>, HttpError> {
        let bounds = PageLimit::MIN.get()..=PageLimit::MAX.get();
        let number = self.number_param(name, bounds)?;
        Ok(number.map(|number| PageLimit::clamped(number.into())))
    }

    /// Rejects unknown parameters. Not used on classic routes, whose clients may send others.
    pub(super) fn reject_unknown(self) -> Result<(), HttpError> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(HttpError::new(ErrorCode::BadQuery, format!("unknown parameter `{name}`")))
            }
        }
    }

    fn take_param(&mut self, name: &str) -> Result<Option<String>, HttpError> {
        let mut found = None;
        let mut is_repeated = false;
        self.0.retain_mut(|(key, value)| {
            if key != name {
                return true;
            }
            is_repeated |= found.replace(std::mem::take(value)).is_some();
            false
        });
        if is_repeated {
            return Err(HttpError::new(
                ErrorCode::BadQuery,
                format!("parameter `{name}` is given more than once"),
            ));
        }
        if found.as_ref().is_some_and(|value| value.trim().is_empty()) {
            return Err(HttpError::new(
                ErrorCode::BadQuery,
                format!("parameter `{name}` is blank; give it a value or leave it out"),
            ));
        }
        Ok(found)
    }
}
