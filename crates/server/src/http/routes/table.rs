//! Declaration of routes. A [`Route`] cannot be created without an access rule, and only routes
//! become part of the router.

use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use noetl_types::{ByteSize, ErrorCode, SecretOperation};

use crate::http::http_error::HttpError;
use crate::http::listener_kind::ListenerKind;
use crate::http::middleware::access::{
    AuditPolicy, Caller, RouteAccess, RouteRules, authorize_route,
};
use crate::http::request_context::AppState;
use crate::http::settings::HttpSettings;
#[cfg(test)]
use crate::http::tests::openapi::shape::{Described, HandlerShape};
use crate::metrics::Metrics;

/// A handler that the OpenAPI document can describe. Tests require a JSON Schema for its body and
/// its response.
#[cfg(not(test))]
pub(in crate::http) trait Described<T> {}

#[cfg(not(test))]
impl<H, T> Described<T> for H {}

/// Defines handlers that call a service once and answer with its response as JSON. Each line is the
/// name of the handler, its extractors with the name of their value, the type of the response, and
/// the call.
macro_rules! handlers {
    ($(
        $(#[$doc:meta])*
        $name:ident($($value:ident: $extractor:ident $(<$kind:ty>)?),+) -> $response:ty => $call:expr;
    )+) => {$(
        $(#[$doc])*
        async fn $name(
            $($extractor($value): $extractor $(<$kind>)?,)+
        ) -> Result<
            $crate::http::json_response::JsonResponse<$response>,
            $crate::http::http_error::HttpError,
        > {
            Ok($crate::http::json_response::JsonResponse($call.await?))
        }
    )+};
}

pub(super) use handlers;

/// Paths of the internal API. The public listener answers 404 for them if the internal API has a
/// separate listener.
const INTERNAL_PATHS: [&str; 2] = ["/api/internal/{*rest}", "/noetl/internal/{*rest}"];

/// Declaration of a route.
#[derive(Debug, Clone)]
pub(in crate::http) struct Route {
    pub(in crate::http) path: &'static str,
    pub(in crate::http) access: RouteAccess,
    handler: MethodRouter<AppState>,
    max_body: ByteSize,
    pub(in crate::http) audit_policy: AuditPolicy,
    pub(in crate::http) accepts_command_token: bool,
    #[cfg(test)]
    pub(in crate::http) methods: MethodFilter,
    #[cfg(test)]
    pub(in crate::http) shape: HandlerShape,
}

/// Declares functions that declare a route, one per HTTP method.
macro_rules! route_methods {
    ($($name:ident = $method:ident,)+) => {$(
        #[doc = concat!("Declares a route for ", stringify!($method), " requests.")]
        pub(in crate::http) fn $name<H, T>(path: &'static str, access: RouteAccess, handler: H) -> Route
        where
            H: Handler<T, AppState> + Described<T>,
            T: 'static,
        {
            Route::new(MethodFilter::$method, path, access, handler)
        }
    )+};
}

route_methods! { get = GET, post = POST, put = PUT, delete = DELETE, }

impl Route {
    pub(in crate::http) fn new<H, T>(
        methods: MethodFilter,
        path: &'static str,
        access: RouteAccess,
        handler: H,
    ) -> Self
    where
        H: Handler<T, AppState> + Described<T>,
        T: 'static,
    {
        Self {
            path,
            access,
            handler: on(methods, handler),
            max_body: ByteSize::from_bytes(0),
            audit_policy: AuditPolicy::Unaudited,
            accepts_command_token: false,
            #[cfg(test)]
            methods,
            #[cfg(test)]
            shape: <H as Described<T>>::shape(),
        }
    }

    /// Sets the maximum body size. A larger configured default wins.
    pub(in crate::http) fn max_body(self, max_body: ByteSize) -> Self {
        Self { max_body, ..self }
    }

    /// Audits calls of the route.
    pub(in crate::http) fn audited(self) -> Self {
        Self { audit_policy: AuditPolicy::Request, ..self }
    }

    /// Audits calls of the route as an operation on a secret.
    pub(in crate::http) fn secret_audited(self, operation: SecretOperation) -> Self {
        Self { audit_policy: AuditPolicy::SecretOperation(operation), ..self }
    }

    /// Makes the route part of the work on a command: its command token grants access.
    pub(in crate::http) fn accepts_command_token(self) -> Self {
        Self { accepts_command_token: true, ..self }
    }

    /// Adds the route to a router. Routes under `/api/` are also available under `/noetl/`, for
    /// gateways.
    fn add_to(
        self,
        router: Router<AppState>,
        listener_kind: ListenerKind,
        settings: &HttpSettings,
        metrics: &Arc<Metrics>,
    ) -> Router<AppState> {
        let rules = RouteRules {
            access: listener_kind.effective_access(self.access),
            max_body: self.max_body.max(settings.max_body),
            internal: settings.internal_token,
            route: self.path,
            metrics: Arc::clone(metrics),
            audit_policy: self.audit_policy,
            accepts_command_token: self.accepts_command_token,
        };
        let handler = self.handler.route_layer(from_fn_with_state(rules, authorize_route));
        let router = match self.path.strip_prefix("/api/") {
            Some(rest) => router.route(&format!("/noetl/{rest}"), handler.clone()),
            None => router,
        };
        router.route(self.path, handler)
    }
}

/// Builds the router of a listener from the routes that it serves.
pub(in crate::http) fn route_requests(
    routes: impl IntoIterator<Item = Route>,
    listener_kind: ListenerKind,
    settings: &HttpSettings,
    app: AppState,
) -> Router {
    let metrics = &app.services().infra.metrics;
    let served = routes.into_iter().filter(|route| listener_kind.serves_path(route.path));
    let router = served.fold(Router::new(), |router, route| {
        route.add_to(router, listener_kind, settings, metrics)
    });
    let router = match listener_kind {
        ListenerKind::All | ListenerKind::Internal => router.fallback(path_not_found),
        ListenerKind::Public => INTERNAL_PATHS
            .into_iter()
            .fold(router, |router, path| router.route(path, any(no_such_path)))
            .fallback(path_not_found),
        // This listener authenticates no one, so unknown paths get 404, not 401.
        ListenerKind::Metrics => router.fallback(no_such_path),
    };
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(Extension(app.clone()))
        .with_state(app)
}

/// Answers requests for unknown paths. Unauthenticated callers get 401, so routes cannot be probed.
async fn path_not_found(Extension(caller): Extension<Caller>) -> HttpError {
    match caller {
        Ok(_) => no_such_path().await,
        Err(error) => error,
    }
}

async fn no_such_path() -> HttpError {
    HttpError::new(ErrorCode::NotFound, "not found: no such path")
}

async fn method_not_allowed(Extension(caller): Extension<Caller>) -> HttpError {
    let not_allowed = || {
        let text = "method not allowed; the `Allow` header lists the supported methods";
        HttpError::new(ErrorCode::MethodNotAllowed, text)
    };
    caller.map_or_else(|access_error| access_error, |_| not_allowed())
}
