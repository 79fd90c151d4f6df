//! Parameters of a request beside its body.

use std::convert::Infallible;
use std::fmt;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use noetl_types::limits::PageLimit;
use noetl_types::trace::TraceContext;
use noetl_types::{CatalogId, ErrorCode, EventId, ExecutionId, Json, Text};

use super::acting::App;
use super::failure::Failure;

/// The header under whose value a request has its effect once.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What other systems may say of a trace.
const LONGEST_STATE: usize = 512;

/// The execution that an address names.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExecutionOf(pub(super) ExecutionId);

impl FromRequestParts<App> for ExecutionOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let not_an_id = |reason: &dyn fmt::Display| {
            Failure::new(
                ErrorCode::BadId,
                format!("not the id of an execution: {reason}"),
            )
        };
        let Path(text) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| not_an_id(&error))?;
        let id: ExecutionId = text.parse().map_err(|error| not_an_id(&error))?;
        Ok(Self(id))
    }
}

/// The trace that a request is part of, as its headers say.
#[derive(Debug, Clone)]
pub(super) struct TraceOf(pub(super) Option<Json>);

impl FromRequestParts<App> for TraceOf {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let text = |name: &str| parts.headers.get(name)?.to_str().ok();
        // What is no place in a trace is passed over, as its standard wants.
        let parent = text("traceparent").filter(|text| TraceContext::parse(text).is_some());
        Ok(Self(parent.map(|parent| {
            let state = text("tracestate").filter(|text| text.len() <= LONGEST_STATE);
            let state = state.map(|state| ("tracestate", Json::from(state)));
            let parent = ("traceparent", Json::from(parent));
            Json::object([parent].into_iter().chain(state))
        })))
    }
}

/// The key under which a request has its effect once.
#[derive(Debug, Clone)]
pub(super) struct KeyOf(Option<String>);

impl KeyOf {
    pub(super) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromRequestParts<App> for KeyOf {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let key = parts.headers.get(IDEMPOTENCY_KEY);
        let key = key.map(|key| key.to_str().unwrap_or_default().to_owned());
        Ok(Self(key))
    }
}

/// The one text that an address holds.
#[derive(Debug, Clone)]
pub(super) struct TextOf(pub(super) String);

impl FromRequestParts<App> for TextOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let Path(text) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| Failure::new(ErrorCode::BadQuery, error.to_string()))?;
        Ok(Self(text))
    }
}

/// The execution and the variable that an address names.
#[derive(Debug, Clone)]
pub(super) struct VarOf(pub(super) ExecutionId, pub(super) String);

impl FromRequestParts<App> for VarOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let not_an_id = |reason: &dyn fmt::Display| {
            let text = format!("not the id of an execution: {reason}");
            Failure::new(ErrorCode::BadId, text)
        };
        let Path((text, name)) = Path::<(String, String)>::from_request_parts(parts, app)
            .await
            .map_err(|error| not_an_id(&error))?;
        let id: ExecutionId = text.parse().map_err(|error| not_an_id(&error))?;
        Ok(Self(id, name))
    }
}

/// The definition that an address names.
#[derive(Debug, Clone, Copy)]
pub(super) struct CatalogOf(pub(super) CatalogId);

impl FromRequestParts<App> for CatalogOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let Path(text) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| no_definition(&error))?;
        let id: CatalogId = text.parse().map_err(|error| no_definition(&error))?;
        Ok(Self(id))
    }
}

/// The definition, and the name in its keychain, that an address names.
#[derive(Debug, Clone)]
pub(super) struct KeychainOf(pub(super) CatalogId, pub(super) String);

impl FromRequestParts<App> for KeychainOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let Path((text, name)) = Path::<(String, String)>::from_request_parts(parts, app)
            .await
            .map_err(|error| no_definition(&error))?;
        let id: CatalogId = text.parse().map_err(|error| no_definition(&error))?;
        Ok(Self(id, name))
    }
}

fn no_definition(reason: &dyn fmt::Display) -> Failure {
    let text = format!("not the id of a definition: {reason}");
    Failure::new(ErrorCode::BadId, text)
}

/// The event that an address names.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventOf(pub(super) EventId);

impl FromRequestParts<App> for EventOf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let not_an_id = |reason: &dyn fmt::Display| {
            let text = format!("not the id of an event: {reason}");
            Failure::new(ErrorCode::BadId, text)
        };
        let Path(text) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| not_an_id(&error))?;
        let id: EventId = text.parse().map_err(|error| not_an_id(&error))?;
        Ok(Self(id))
    }
}

/// What stands behind the question mark; each parameter is taken once.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl FromRequestParts<App> for Params {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| Failure::new(ErrorCode::BadQuery, error.to_string()))?;
        Ok(Self(pairs))
    }
}

impl Params {
    /// A parameter as it is. One without a value is as good as none.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<Text>, Failure> {
        self.read(name, |value| Text::new(value))
    }

    /// A parameter, read.
    pub(super) fn read<T, E: fmt::Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.take(name)? else {
            return Ok(None);
        };
        match read(&value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(Failure::new(
                ErrorCode::BadQuery,
                format!("{name}: {error}"),
            )),
        }
    }

    /// Whether something is so.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Failure> {
        self.read(name, |word| match word {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" => Ok(false),
            _ => Err("neither `true` nor `false`"),
        })
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &mut self,
        name: &str,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, Failure> {
        let Some(number) = self.read(name, str::parse::<i64>)? else {
            return Ok(None);
        };
        match u32::try_from(number) {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => Err(Failure::new(
                ErrorCode::OutOfRange,
                format!(
                    "{name} = {number} is out of range {}..{}",
                    bounds.start(),
                    bounds.end()
                ),
            )),
        }
    }

    /// How much of a list to show.
    pub(super) fn page_limit(
        &mut self,
        name: &str,
        otherwise: PageLimit,
    ) -> Result<PageLimit, Failure> {
        let bounds = PageLimit::MIN.get()..=PageLimit::MAX.get();
        let number = self.number(name, bounds)?;
        Ok(number.map_or(otherwise, |number| PageLimit::clamped(number.into())))
    }

    /// Refuses what nobody asked about, on routes that have no clients older than themselves.
    pub(super) fn nothing_else(self) -> Result<(), Failure> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Failure::new(
                ErrorCode::BadQuery,
                format!("`{name}` is not a parameter of this route"),
            )),
        }
    }

    fn take(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let mut found = None;
        let mut is_twice = false;
        self.0.retain_mut(|(key, value)| {
            if key != name {
                return true;
            }
            is_twice |= found.replace(std::mem::take(value)).is_some();
            false
        });
        if is_twice {
            return Err(Failure::new(
                ErrorCode::BadQuery,
                format!("`{name}` is given twice"),
            ));
        }
        Ok(found.filter(|value| !value.is_empty()))
    }
}
