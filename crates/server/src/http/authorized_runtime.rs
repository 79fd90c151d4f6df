//! Extractors that give handlers a runtime restricted to the rights of the caller.

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
use crate::runtime::{Runtime, SecretAuditContext};

/// State shared by all requests. Its runtime is restricted to no caller, so handlers that act for a
/// caller use [`AuthorizedRuntime`].
#[derive(Clone)]
pub(super) struct AppState {
    runtime: Runtime,
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
pub(super) struct AuthorizedRuntime(pub(super) RequestContext);

/// Extractor of a runtime for operations that concern all tenants.
pub(super) struct PlatformRuntime(pub(super) Runtime);

/// Context of a request of an authenticated caller.
pub(super) struct RequestContext {
    /// Runtime restricted to the rights of the caller.
    pub(super) runtime: Runtime,
    /// Ends long polls and streams when the server stops.
    pub(super) shutdown: CancellationToken,
    pub(super) identity: CallerIdentity,
}

/// Extractor of the runtime and scope of a projector, which copies events into the log. The
/// platform token may copy events of every execution, the token of a tenant only events of that
/// tenant.
pub(super) struct ProjectorRuntime(pub(super) Runtime, pub(super) ProjectionScope);

impl AppState {
    pub(super) fn new(
        runtime: Runtime,
        settings: &HttpSettings,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            runtime,
            shutdown,
            body_timeout: Duration::from_millis(settings.body_timeout.as_ms()),
            max_body: settings.max_body,
            unsafe_settings: settings.unsafe_settings().into(),
            has_sql_console: settings.sql_console,
            config_schema: settings.config_schema.clone(),
        }
    }

    /// Returns the runtime without a caller, for operations that concern no single tenant.
    pub(super) fn unauthenticated_runtime(&self) -> &Runtime {
        &self.runtime
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

impl FromRequestParts<AppState> for AuthorizedRuntime {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, HttpError> {
        // Authentication always inserts a result. If it is missing, unauthenticated is safe.
        let missing = || Err(HttpError::new(ErrorCode::Unauthenticated, "authentication required"));
        let caller = parts.extensions.get::<Caller>().cloned();
        let identity = caller.unwrap_or_else(missing)?;
        Ok(Self(RequestContext {
            runtime: app
                .runtime
                .with_auth_context(identity.auth_context().clone())
                .with_work_id(parts.extensions.get::<RequestWorkId>().map(|work| work.0))
                .with_secret_audit(parts.extensions.get::<SecretAuditContext>().cloned())
                .with_actor(identity.authenticated_actor()),
            shutdown: app.shutdown.clone(),
            identity,
        }))
    }
}

impl FromRequestParts<AppState> for ProjectorRuntime {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, HttpError> {
        // The route requires an authenticated caller or the platform token.
        Ok(match parts.extensions.get::<Caller>() {
            Some(Ok(identity)) => {
                let context = identity.auth_context().clone();
                let scope = ProjectionScope::Tenant(context.tenant_id.clone());
                Self(app.runtime.with_auth_context(context), scope)
            }
            Some(Err(_)) | None => Self(app.runtime.clone(), ProjectionScope::ExecutionOwner),
        })
    }
}

impl FromRequestParts<AppState> for PlatformRuntime {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        let audit = parts.extensions.get::<SecretAuditContext>().cloned();
        Ok(Self(app.runtime.clone().with_secret_audit(audit)))
    }
}
