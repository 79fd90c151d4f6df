//! Table of routes. [`RouteTable::add_route`] is the only way to add a route to the router. It
//! requires the access rule and the maximum body size, so a route without them does not compile.

use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, any, on};
use noetl_types::{ByteSize, ErrorCode, SecretOperation};

use super::access::{AuditPolicy, Caller, RouteAccess, RouteRules, authorize_route};
use super::authorized_runtime::AppState;
use super::http_error::HttpError;
use super::internal_token::InternalToken;
use super::listener_kind::ListenerKind;
use super::openapi::Described;
use crate::metrics::Metrics;

/// Paths of the internal API. The public listener answers 404 for them if the internal API has a
/// separate listener.
const INTERNAL_PATHS: [&str; 2] = ["/api/internal/{*rest}", "/noetl/internal/{*rest}"];

/// Declarations of a route, for tests and the OpenAPI document.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(super) struct RouteDeclaration {
    pub(super) access: RouteAccess,
    pub(super) methods: MethodFilter,
    pub(super) path: String,
    pub(super) shape: super::openapi::HandlerShape,
    pub(super) accepts_command_token: bool,
}

/// Routes with their declarations.
pub(super) struct RouteTable {
    router: Router<AppState>,
    default_max_body: ByteSize,
    max_body: ByteSize,
    internal: Option<InternalToken>,
    metrics: Arc<Metrics>,
    audit_policy: AuditPolicy,
    accepts_command_token: bool,
    listener_kind: ListenerKind,
    #[cfg(test)]
    declarations: Vec<RouteDeclaration>,
}

impl RouteTable {
    pub(super) fn new(
        default_max_body: ByteSize,
        internal: Option<InternalToken>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            router: Router::new(),
            default_max_body,
            max_body: default_max_body,
            internal,
            metrics,
            audit_policy: AuditPolicy::Unaudited,
            accepts_command_token: false,
            listener_kind: ListenerKind::All,
            #[cfg(test)]
            declarations: Vec::new(),
        }
    }

    /// Restricts the table to the routes of a listener. Others are ignored when added.
    pub(super) fn for_listener(self, listener_kind: ListenerKind) -> Self {
        Self { listener_kind, ..self }
    }

    /// Sets the maximum body size of the following routes. A larger configured default wins.
    pub(super) fn with_max_body(self, max_body: ByteSize) -> Self {
        let max_body = max_body.max(self.default_max_body);
        Self { max_body, ..self }
    }

    pub(super) fn with_default_body(self) -> Self {
        let max_body = self.default_max_body;
        self.with_max_body(max_body)
    }

    /// Audits calls of the following routes.
    pub(super) fn with_audit(self) -> Self {
        let audit_policy = AuditPolicy::Request;
        Self { audit_policy, ..self }
    }

    /// Audits calls of the following routes as an operation on a secret.
    pub(super) fn with_secret_audit(self, operation: SecretOperation) -> Self {
        let audit_policy = AuditPolicy::SecretOperation(operation);
        Self { audit_policy, ..self }
    }

    pub(super) fn without_audit(self) -> Self {
        let audit_policy = AuditPolicy::Unaudited;
        Self { audit_policy, ..self }
    }

    /// Makes the following routes part of the work on a command: its command token grants access to
    /// them.
    pub(super) fn with_command_token(self) -> Self {
        Self { accepts_command_token: true, ..self }
    }

    pub(super) fn without_command_token(self) -> Self {
        Self { accepts_command_token: false, ..self }
    }

    /// Adds a route. Routes under `/api/` are also available under `/noetl/`, for gateways.
    pub(super) fn add_route<H, T>(
        self,
        access: RouteAccess,
        methods: MethodFilter,
        path: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, AppState> + Described<T>,
        T: 'static,
    {
        if !self.listener_kind.serves_path(path) {
            return self;
        }
        let rules = RouteRules {
            access: self.listener_kind.effective_access(access),
            max_body: self.max_body,
            internal: self.internal,
            route: path,
            metrics: Arc::clone(&self.metrics),
            audit_policy: self.audit_policy,
            accepts_command_token: self.accepts_command_token,
        };
        let route = on(methods, handler).route_layer(from_fn_with_state(rules, authorize_route));
        let mut router = self.router;
        if let Some(rest) = path.strip_prefix("/api/") {
            router = router.route(&format!("/noetl/{rest}"), route.clone());
        }
        #[cfg(test)]
        let declarations = {
            let mut declarations = self.declarations;
            declarations.push(RouteDeclaration {
                access,
                methods,
                path: path.to_owned(),
                shape: <H as Described<T>>::shape(),
                accepts_command_token: self.accepts_command_token,
            });
            declarations
        };
        Self {
            router: router.route(path, route),
            default_max_body: self.default_max_body,
            max_body: self.max_body,
            audit_policy: self.audit_policy,
            accepts_command_token: self.accepts_command_token,
            listener_kind: self.listener_kind,
            internal: self.internal,
            metrics: self.metrics,
            #[cfg(test)]
            declarations,
        }
    }

    #[cfg(test)]
    pub(super) fn into_declarations(self) -> Vec<RouteDeclaration> {
        self.declarations
    }

    pub(super) fn into_router(self, app: AppState) -> Router {
        let router = match self.listener_kind {
            ListenerKind::All | ListenerKind::Internal => self.router.fallback(path_not_found),
            ListenerKind::Public => INTERNAL_PATHS
                .into_iter()
                .fold(self.router, |router, path| router.route(path, any(no_such_path)))
                .fallback(path_not_found),
            // This listener authenticates no one, so unknown paths get 404, not 401.
            ListenerKind::Metrics => self.router.fallback(no_such_path),
        };
        router
            .method_not_allowed_fallback(method_not_allowed)
            .layer(Extension(app.clone()))
            .with_state(app)
    }
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
