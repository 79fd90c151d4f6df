//! What a handler has at hand, on behalf of whoever makes the request.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use noetl_store::CopyScope;
use noetl_types::{ByteSize, ErrorCode};
use tokio_util::sync::CancellationToken;

use super::access::{Caller, Identity};
use super::failure::Failure;
use super::once::Work;
use super::settings::HttpSettings;
use crate::runtime::{Runtime, SecretNote};

/// What all requests share. The runtime in it is nobody's, so no handler gets at it but through
/// [`For`].
#[derive(Clone)]
pub(super) struct App {
    runtime: Runtime,
    /// Ends what waits.
    shutdown: CancellationToken,
    pub(super) body_timeout: Duration,
    pub(super) max_body: ByteSize,
    /// What is not as safe as it should be, because an operator wanted it so.
    unsafe_settings: Arc<[&'static str]>,
    has_sql_console: bool,
    config_schema: Option<Arc<str>>,
}

/// The same on behalf of whoever makes the request.
pub(super) struct For(pub(super) Acting);

/// The runtime for what concerns all tenants.
pub(super) struct ForAll(pub(super) Runtime);

/// What a handler has at hand.
pub(super) struct Acting {
    /// Sees what the caller may see, and nothing else.
    pub(super) runtime: Runtime,
    /// Ends what waits.
    pub(super) shutdown: CancellationToken,
    /// Who makes the request.
    pub(super) identity: Identity,
}

/// The runtime for whoever brings events of others, and on whose behalf. The token of the platform speaks
/// for every execution that there is; whoever shows a token of a tenant speaks for that tenant.
pub(super) struct ForCopies(pub(super) Runtime, pub(super) CopyScope);

impl App {
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

    /// The runtime, for questions that concern no tenant.
    pub(super) fn of_nobody(&self) -> &Runtime {
        &self.runtime
    }

    /// Whether statements for the database may be sent, as far as an operator goes.
    pub(super) fn has_sql_console(&self) -> bool {
        self.has_sql_console
    }

    /// The JSON Schema of the settings.
    pub(super) fn config_schema(&self) -> Option<&str> {
        self.config_schema.as_deref()
    }

    /// What is not as safe as it should be.
    pub(super) fn unsafe_settings(&self) -> &[&'static str] {
        &self.unsafe_settings
    }
}

impl FromRequestParts<App> for For {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        // Every request has one; were it not so, nobody would be the safe answer.
        let nobody = || Err(Failure::new(ErrorCode::Unauthenticated, "nobody is known"));
        let caller = parts.extensions.get::<Caller>().cloned();
        let identity = caller.unwrap_or_else(nobody)?;
        Ok(Self(Acting {
            runtime: app
                .runtime
                .on_behalf_of(identity.behalf().clone())
                .working_on(parts.extensions.get::<Work>().map(|work| work.0))
                .noting(parts.extensions.get::<SecretNote>().cloned())
                .acting_as(identity.proven_actor()),
            shutdown: app.shutdown.clone(),
            identity,
        }))
    }
}

impl FromRequestParts<App> for ForCopies {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        // The gate lets nobody through who is neither known nor shows the token of the platform.
        Ok(match parts.extensions.get::<Caller>() {
            Some(Ok(identity)) => {
                let behalf = identity.behalf().clone();
                let scope = CopyScope::Tenant(behalf.tenant_id.clone());
                Self(app.runtime.on_behalf_of(behalf), scope)
            }
            Some(Err(_)) | None => Self(app.runtime.clone(), CopyScope::OfExecution),
        })
    }
}

impl FromRequestParts<App> for ForAll {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let note = parts.extensions.get::<SecretNote>().cloned();
        Ok(Self(app.runtime.clone().noting(note)))
    }
}
