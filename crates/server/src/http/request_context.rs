//! Extractors that give handlers the services and the context of the call.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use noetl_store::ProjectionScope;
use noetl_types::{ByteSize, ErrorCode};
use tokio_util::sync::CancellationToken;

use super::http_error::HttpError;
use super::middleware::access::{Caller, CallerIdentity};
use super::middleware::idempotency::RequestWorkId;
use super::settings::HttpSettings;
use crate::access::{CallContext, SecretAuditContext};
use crate::services::ControlPlane;

/// State shared by all requests.
#[derive(Clone)]
pub(super) struct AppState {
    services: Arc<ControlPlane>,
    /// Ends long polls and streams when the server stops.
    shutdown: CancellationToken,
    pub(super) body_timeout: Duration,
    pub(super) max_body: ByteSize,
    /// Enabled settings that reduce safety.
    unsafe_settings: Arc<[&'static str]>,
    has_sql_console: bool,
    config_schema: Option<Arc<str>>,
}

/// Extractor of the request context of an authenticated caller.
pub(super) struct AuthorizedCall(pub(super) RequestContext);

/// Extractor of the call of an operation that concerns all tenants.
pub(super) struct PlatformCall(pub(super) ServiceCall);

/// The services, and the context to call them with.
pub(super) struct ServiceCall {
    pub(super) services: Arc<ControlPlane>,
    pub(super) ctx: CallContext,
}

/// Context of a request of an authenticated caller.
pub(super) struct RequestContext {
    pub(super) services: Arc<ControlPlane>,
    /// Rights of the caller, and what the call records about itself.
    pub(super) ctx: CallContext,
    /// Ends long polls and streams when the server stops.
    pub(super) shutdown: CancellationToken,
    pub(super) identity: CallerIdentity,
}

/// Extractor of the call and scope of a projector, which copies events into the log. The
/// platform token may copy events of every execution, the token of a tenant only events of that
/// tenant.
pub(super) struct ProjectorCall(pub(super) ServiceCall, pub(super) ProjectionScope);

impl AppState {
    pub(super) fn new(
        services: ControlPlane,
        settings: &HttpSettings,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            services: Arc::new(services),
            shutdown,
            body_timeout: Duration::from_millis(settings.body_timeout.as_ms()),
            max_body: settings.max_body,
            unsafe_settings: settings.unsafe_settings().into(),
            has_sql_console: settings.sql_console,
            config_schema: settings.config_schema.clone(),
        }
    }

    pub(super) fn services(&self) -> &Arc<ControlPlane> {
        &self.services
    }

    /// True if the operator enabled the SQL console.
    pub(super) fn has_sql_console(&self) -> bool {
        self.has_sql_console
    }

    /// JSON Schema of the server settings.
    pub(super) fn config_schema(&self) -> Option<&str> {
        self.config_schema.as_deref()
    }

    /// Names of the enabled settings that reduce safety.
    pub(super) fn unsafe_settings(&self) -> &[&'static str] {
        &self.unsafe_settings
    }
}

impl FromRequestParts<AppState> for AuthorizedCall {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, HttpError> {
        // Authentication always inserts a result. If it is missing, unauthenticated is safe.
        let missing = || Err(HttpError::new(ErrorCode::Unauthenticated, "authentication required"));
        let caller = parts.extensions.get::<Caller>().cloned();
        let identity = caller.unwrap_or_else(missing)?;
        Ok(Self(RequestContext {
            services: Arc::clone(&app.services),
            ctx: CallContext {
                auth: identity.auth_context().clone(),
                actor: identity.authenticated_actor(),
                work_id: parts.extensions.get::<RequestWorkId>().map(|work| work.0),
                secret_audit: parts.extensions.get::<SecretAuditContext>().cloned(),
                observed_seq: None,
            },
            shutdown: app.shutdown.clone(),
            identity,
        }))
    }
}

impl FromRequestParts<AppState> for ProjectorCall {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, HttpError> {
        // The route requires an authenticated caller or the platform token.
        let (ctx, scope) = match parts.extensions.get::<Caller>() {
            Some(Ok(identity)) => {
                let ctx = CallContext::from(identity.auth_context().clone());
                let scope = ProjectionScope::Tenant(ctx.tenant().clone());
                (ctx, scope)
            }
            Some(Err(_)) | None => (CallContext::default(), ProjectionScope::ExecutionOwner),
        };
        Ok(Self(ServiceCall { services: Arc::clone(&app.services), ctx }, scope))
    }
}

impl FromRequestParts<AppState> for PlatformCall {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        let secret_audit = parts.extensions.get::<SecretAuditContext>().cloned();
        let ctx = CallContext { secret_audit, ..CallContext::default() };
        Ok(Self(ServiceCall { services: Arc::clone(&app.services), ctx }))
    }
}
