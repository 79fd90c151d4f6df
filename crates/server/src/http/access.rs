//! Who may call which route.
//!
//! Each route declares what it takes to call it; see [`super::routes`] for why it cannot forget to.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use noetl_types::{ByteSize, ErrorCode, Text};
use tokio::time::Instant;

use super::failure::Failure;
use super::internal::{self, InternalToken};
use crate::metrics::Metrics;

/// Something that an identity may do. A scope comes with the first route that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Read executions.
    ExecRead,
    /// Start and steer executions.
    ExecRun,
    /// Decide what waits for a person.
    ExecApprove,
    /// Read definitions.
    CatalogRead,
    /// Write definitions.
    CatalogWrite,
    /// Lease commands and report on them.
    Worker,
    /// Publish the outbox.
    InternalOutbox,
    /// Copy events into the log, and let read models follow it.
    InternalProject,
    /// Drop what is old.
    InternalRetention,
    /// Read what a server counts.
    MetricsRead,
    /// Change what the system itself runs.
    Admin,
}

impl Scope {
    /// All of them.
    const ALL: [Self; 11] = [
        Self::ExecRead,
        Self::ExecRun,
        Self::ExecApprove,
        Self::CatalogRead,
        Self::CatalogWrite,
        Self::Worker,
        Self::InternalOutbox,
        Self::InternalProject,
        Self::InternalRetention,
        Self::MetricsRead,
        Self::Admin,
    ];

    /// The one spelling.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ExecRead => "exec:read",
            Self::ExecRun => "exec:run",
            Self::ExecApprove => "exec:approve",
            Self::CatalogRead => "catalog:read",
            Self::CatalogWrite => "catalog:write",
            Self::Worker => "worker",
            Self::InternalOutbox => "internal:outbox",
            Self::InternalProject => "internal:project",
            Self::InternalRetention => "internal:retention",
            Self::MetricsRead => "metrics:read",
            Self::Admin => "admin",
        }
    }

    /// Whether it is beyond what a developer on the same machine may do without a token.
    const fn needs_token(self) -> bool {
        match self {
            Self::InternalOutbox
            | Self::InternalProject
            | Self::InternalRetention
            | Self::Admin => true,
            Self::ExecRead
            | Self::ExecRun
            | Self::ExecApprove
            | Self::CatalogRead
            | Self::CatalogWrite
            | Self::Worker
            | Self::MetricsRead => false,
        }
    }
}

/// Who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Whoever sits at this machine.
    Developer,
}

impl Identity {
    pub(super) fn may(self, scope: Scope) -> bool {
        match self {
            Self::Developer => !scope.needs_token(),
        }
    }

    /// What it may do.
    pub(super) fn scopes(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.may(*scope))
    }

    /// Who it is, as logs of executions tell it.
    pub(super) fn actor(self) -> Text {
        match self {
            Self::Developer => "developer".into(),
        }
    }
}

/// What was found out about who makes a request; nobody, and why, or somebody.
pub(super) type Caller = Result<Identity, Failure>;

/// What it takes to call a route.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    /// Nothing.
    Open,
    /// Any identity.
    Identity,
    /// Any one of these.
    AnyOf(&'static [Scope]),
    /// The token of the internal API, or this scope.
    Internal(Scope),
}

/// What a route declares about itself.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) access: Access,
    pub(super) max_body: ByteSize,
    /// What the internal API asks for; while there is none, it is closed.
    pub(super) internal: Option<InternalToken>,
    /// Its path, as counts name it.
    pub(super) route: &'static str,
    pub(super) metrics: Arc<Metrics>,
}

/// The largest body of the route that a request goes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaxBody(pub(super) ByteSize);

impl Access {
    /// Whether a caller may come in.
    fn check(self, caller: &Caller) -> Result<(), Failure> {
        let scopes = match self {
            Self::Open => return Ok(()),
            Self::Identity => {
                return caller.as_ref().map(drop).map_err(Failure::clone);
            }
            Self::AnyOf(scopes) => scopes,
            Self::Internal(scope) => {
                let may = caller.as_ref().is_ok_and(|identity| identity.may(scope));
                return if may {
                    Ok(())
                } else {
                    Err(internal::refused())
                };
            }
        };
        let identity = caller.as_ref().map_err(Failure::clone)?;
        if scopes.iter().any(|scope| identity.may(*scope)) {
            return Ok(());
        }
        let wanted: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        Err(Failure::new(
            ErrorCode::Forbidden,
            format!("this needs the scope {}", wanted.join(" or ")),
        ))
    }
}

impl Rules {
    /// Whether a request may come in: by who makes it, or, to the internal API, by the token it shows.
    fn check(&self, caller: &Caller, headers: &HeaderMap) -> Result<(), Failure> {
        match self.access {
            Access::Internal(_) if internal::check(self.internal, headers)? => Ok(()),
            Access::Internal(_) | Access::Open | Access::Identity | Access::AnyOf(_) => {
                self.access.check(caller)
            }
        }
    }
}

/// Stands before the handler of a route.
pub(super) async fn gate(
    State(rules): State<Rules>,
    Extension(caller): Extension<Caller>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let is_write = !request.method().is_safe();
    let response = match rules.check(&caller, request.headers()) {
        Ok(()) => {
            request.extensions_mut().insert(MaxBody(rules.max_body));
            next.run(request).await
        }
        Err(failure) => {
            rules.metrics.denied();
            failure.into_response()
        }
    };
    let code = response.status().as_u16();
    let took = began.elapsed();
    rules.metrics.answered(rules.route, is_write, code, took);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_scopes_is_enough() {
        let developer: Caller = Ok(Identity::Developer);
        let either = Access::AnyOf(&[Scope::Admin, Scope::ExecRead]);
        assert!(either.check(&developer).is_ok());
        let refused = Access::AnyOf(&[Scope::Admin]).check(&developer);
        assert_eq!(refused.unwrap_err().into_response().status(), 403);
        let nobody: Caller = Err(Failure::new(ErrorCode::Unauthenticated, "who?"));
        assert_eq!(
            either.check(&nobody).unwrap_err().into_response().status(),
            401
        );
        assert!(Access::Open.check(&nobody).is_ok());
    }
}
