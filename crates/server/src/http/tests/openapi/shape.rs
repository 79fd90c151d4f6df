//! Description of a route by the types of its handler: request body and response.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::http::body::{JsonBody, JsonBodyOrDefault, JsonListBody};
use crate::http::http_error::HttpError;
use crate::http::json_response::{JsonAtSeq, JsonResponse};
use crate::http::middleware::access::Caller;
use crate::http::middleware::idempotency::IdempotentResponse;
use crate::http::params::{
    IdempotencyKeyHeader, PathCatalogId, PathEventId, PathExecutionId, PathKeychainEntry, PathText,
    PathVariable, QueryParams, TraceHeaders,
};
use crate::http::request_context::{AppState, AuthorizedCall, PlatformCall, ProjectorCall};

/// Generates the schema of a type.
pub(in crate::http) type SchemaBuilder = fn(&mut SchemaGenerator) -> Schema;

/// Properties of a route, derived from the types of its handler.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::http) struct HandlerShape {
    /// Schema of the request body, and true if the body is required.
    pub(in crate::http) body: Option<(SchemaBuilder, bool)>,
    /// Schema of the response, if the type of the handler determines it.
    pub(in crate::http) response: Option<SchemaBuilder>,
    /// True if the handler always fails.
    pub(in crate::http) only_fails: bool,
    /// True if the response has the seq of the log.
    pub(in crate::http) has_seq: bool,
    /// True if the handler reads query parameters.
    pub(in crate::http) has_query: bool,
}

/// A handler that can be described.
pub(in crate::http) trait Described<T> {
    fn shape() -> HandlerShape;
}

/// A parameter of a handler, extracted from the request.
pub(in crate::http) trait RequestPart {
    /// Adds the properties that the parameter gives to the handler.
    fn add_to_shape(_: &mut HandlerShape) {}
}

/// A return type of a handler.
pub(in crate::http) trait HandlerOutput {
    fn add_to_shape(_: &mut HandlerShape) {}
}

impl RequestPart for AuthorizedCall {}
impl RequestPart for ProjectorCall {}
impl RequestPart for PlatformCall {}
impl RequestPart for State<AppState> {}
impl RequestPart for Extension<Caller> {}
impl RequestPart for HeaderMap {}
impl RequestPart for Uri {}
impl RequestPart for PathExecutionId {}
impl RequestPart for PathEventId {}
impl RequestPart for PathText {}
impl RequestPart for PathVariable {}
impl RequestPart for PathCatalogId {}
impl RequestPart for PathKeychainEntry {}
impl RequestPart for IdempotencyKeyHeader {}
impl RequestPart for TraceHeaders {}
impl<T> RequestPart for Path<T> {}

impl RequestPart for QueryParams {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.has_query = true;
    }
}

impl<T: JsonSchema> RequestPart for JsonBody<T> {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.body = Some((SchemaGenerator::subschema_for::<T>, true));
    }
}

impl<T: JsonSchema> RequestPart for JsonBodyOrDefault<T> {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.body = Some((SchemaGenerator::subschema_for::<T>, false));
    }
}

impl<T: JsonSchema> RequestPart for JsonListBody<T> {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.body = Some((SchemaGenerator::subschema_for::<Vec<T>>, true));
    }
}

impl HandlerOutput for Response {}

impl HandlerOutput for HttpError {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.only_fails = true;
    }
}

impl<T: JsonSchema> HandlerOutput for JsonResponse<T> {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.response = Some(SchemaGenerator::subschema_for::<T>);
    }
}

impl<T: JsonSchema> HandlerOutput for JsonAtSeq<T> {
    fn add_to_shape(shape: &mut HandlerShape) {
        shape.has_seq = true;
        JsonResponse::<T>::add_to_shape(shape);
    }
}

impl<T: JsonSchema> HandlerOutput for IdempotentResponse<T> {
    fn add_to_shape(shape: &mut HandlerShape) {
        JsonResponse::<T>::add_to_shape(shape);
    }
}

impl<T: HandlerOutput, E> HandlerOutput for Result<T, E> {
    fn add_to_shape(shape: &mut HandlerShape) {
        T::add_to_shape(shape);
    }
}

impl<F, Fut> Described<((),)> for F
where
    F: FnOnce() -> Fut,
    Fut: Future<Output: HandlerOutput>,
{
    fn shape() -> HandlerShape {
        let mut shape = HandlerShape::default();
        <Fut::Output as HandlerOutput>::add_to_shape(&mut shape);
        shape
    }
}

/// The first type parameter is the marker of axum's handler trait.
macro_rules! impl_described {
    ($($part:ident),+) => {
        impl<Marker, F, Fut, $($part),+> Described<(Marker, $($part,)+)> for F
        where
            F: FnOnce($($part),+) -> Fut,
            Fut: Future<Output: HandlerOutput>,
            $($part: RequestPart,)+
        {
            fn shape() -> HandlerShape {
                let mut shape = HandlerShape::default();
                $($part::add_to_shape(&mut shape);)+
                <Fut::Output as HandlerOutput>::add_to_shape(&mut shape);
                shape
            }
        }
    };
}

impl_described!(A);
impl_described!(A, B);
impl_described!(A, B, C);
impl_described!(A, B, C, D);
impl_described!(A, B, C, D, E);
