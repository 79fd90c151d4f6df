//! Who may call which route.
//!
//! Each route declares what it takes to call it; see [`super::routing`] for why it cannot forget to.

use std::sync::Arc;

use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, RequestExt as _};
use noetl_store::ApiToken;
use noetl_types::{
    ByteSize, ErrorCode, ExecutionId, Scopes, SecretOperation, TenantId, Text, TokenId,
};
use tokio::time::Instant;
use tracing::Span;

use super::failure::Failure;
use super::internal::{self, InternalToken};
use super::once;
use crate::metrics::Metrics;
use crate::runtime::{Behalf, Capability, SecretNote, TokenName};

pub(super) use noetl_types::Scope;

/// Who makes a request.
#[derive(Debug, Clone)]
pub(super) struct Identity(Arc<Known>);

/// What is known of somebody.
#[derive(Debug)]
struct Known {
    actor: Text,
    behalf: Behalf,
    /// The token that it showed.
    token: Option<TokenName>,
    /// Whether it showed who it is, and does not merely sit at this machine.
    is_proven: bool,
}

impl Identity {
    /// Whoever sits at this machine: may do everything but what needs a token.
    pub(super) fn developer() -> Self {
        let needs_token = |scope: &Scope| *scope == Scope::Admin || scope.is_internal();
        let scopes = Scope::ALL.iter().copied();
        Self(Arc::new(Known {
            actor: "developer".into(),
            behalf: Behalf {
                scopes: Some(scopes.filter(|scope| !needs_token(scope)).collect()),
                ..Behalf::default()
            },
            token: None,
            is_proven: false,
        }))
    }

    /// Whoever shows a token.
    pub(super) fn of_token(token: &ApiToken) -> Self {
        Self(Arc::new(Known {
            actor: token.name.clone(),
            behalf: Behalf {
                tenant_id: token.tenant_id.clone(),
                organization_id: token.organization_id.clone(),
                pools: token.pools.as_deref().map(Arc::from),
                path_globs: token.path_globs.as_deref().map(Arc::from),
                capability: None,
                scopes: Some(token.scopes),
            },
            token: Some(TokenName::of(token)),
            is_proven: true,
        }))
    }

    /// Whoever shows a capability.
    pub(super) fn of_capability(capability: Capability) -> Self {
        Self(Arc::new(Known {
            actor: format!("command:{}", capability.command_id).into(),
            behalf: capability.behalf(),
            token: None,
            is_proven: true,
        }))
    }

    /// Whoever a certificate stands for.
    pub(super) fn of_certificate(actor: Text, behalf: Behalf) -> Self {
        Self(Arc::new(Known {
            actor,
            behalf,
            token: None,
            is_proven: true,
        }))
    }

    /// The capability that it showed.
    pub(super) fn capability(&self) -> Option<&Capability> {
        self.0.behalf.capability.as_ref()
    }

    pub(super) fn may(&self, scope: Scope) -> bool {
        self.0.behalf.may(scope)
    }

    /// What it may do, as it was given.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.0.behalf.scopes.into_iter().flat_map(Scopes::iter)
    }

    /// Who it is, as logs of executions tell it.
    pub(super) fn actor(&self) -> Text {
        self.0.actor.clone()
    }

    /// The same, if it showed that.
    pub(super) fn proven_actor(&self) -> Option<Text> {
        self.0.is_proven.then(|| self.actor())
    }

    /// Whose data it may see.
    pub(super) fn behalf(&self) -> &Behalf {
        &self.0.behalf
    }

    /// Whether it is of the tenant that runs the installation.
    fn is_operator(&self) -> bool {
        self.0.behalf.tenant_id == TenantId::default()
    }

    /// The token that it showed.
    pub(super) fn token(&self) -> Option<&TokenName> {
        self.0.token.as_ref()
    }

    /// Its id.
    pub(super) fn token_id(&self) -> Option<TokenId> {
        self.token().map(|token| token.token_id)
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
    /// The token of the internal API, or this scope: an internal one, or one of the tenant that runs
    /// the installation.
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
    /// What a call leaves behind.
    pub(super) leaves: Leaves,
    /// Whether it is part of the work on a command, so that a capability opens it.
    pub(super) is_of_command: bool,
}

/// What the calls of a route leave behind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaves {
    /// Nothing.
    Nothing,
    /// An entry in the trail.
    Entry,
    /// One that tells what was done to a secret.
    SecretEntry(SecretOperation),
}

/// Marks the answer of a call that leaves a trail.
#[derive(Debug, Clone)]
pub(super) struct Audited {
    /// The route that it went to.
    pub(super) route: Text,
    /// What it did to a secret.
    pub(super) secret: Option<SecretNote>,
    /// Whether it came in by the token of the internal API, which is nobody's.
    pub(super) is_platform: bool,
}

impl Audited {
    async fn of(leaves: Leaves, request: &mut Request) -> Option<Self> {
        let secret = match leaves {
            Leaves::Nothing => return None,
            Leaves::Entry => None,
            Leaves::SecretEntry(operation) => {
                let params = request.extract_parts::<RawPathParams>().await.ok();
                let named = |params: &RawPathParams| {
                    let mut params = params.iter();
                    let name = params.find(|(key, _)| NAMES_OF_SECRETS.contains(key));
                    name.map(|(_, name)| name.to_owned())
                };
                let name = params.as_ref().and_then(named);
                Some(SecretNote::new(operation, name.as_deref()))
            }
        };
        if let Some(note) = &secret {
            request.extensions_mut().insert(note.clone());
        }
        let path = request.extensions().get::<MatchedPath>();
        let path = path.map_or("", MatchedPath::as_str);
        Some(Self {
            route: format!("{} {path}", request.method()).into(),
            secret,
            is_platform: false,
        })
    }
}

/// Where the paths of routes have the name of a secret.
const NAMES_OF_SECRETS: [&str; 2] = ["credential", "name"];

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
                let may = |identity: &Identity| {
                    // Internal scopes are only given by whoever runs the installation. Every tenant
                    // has an admin of its own, who is nobody to the platform as a whole. Whoever
                    // merely sits at this machine shows nothing, and all of this needs proof.
                    identity.0.is_proven
                        && identity.may(scope)
                        && (scope.is_internal() || identity.is_operator())
                };
                return match caller {
                    Ok(identity) if may(identity) => Ok(()),
                    // Whoever it is comes back later: nothing is wrong with what was shown.
                    Err(failure) if !failure.is_refusal() => Err(failure.clone()),
                    Ok(_) | Err(_) => Err(internal::refused()),
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
    /// Whether a request may come in: by who makes it, or, to the internal API, by the token it shows,
    /// which it says.
    fn check(&self, caller: &Caller, headers: &HeaderMap) -> Result<bool, Failure> {
        let has_capability = |caller: &Identity| caller.capability().is_some();
        if !self.is_of_command && caller.as_ref().is_ok_and(has_capability) {
            let text = "a capability opens what its command needs, and nothing else";
            return Err(Failure::new(ErrorCode::Forbidden, text));
        }
        match self.access {
            Access::Internal(_) if internal::check(self.internal, headers)? => Ok(true),
            Access::Internal(_) | Access::Open | Access::Identity | Access::AnyOf(_) => {
                self.access.check(caller).map(|()| false)
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
    tell_run(rules.route, &mut request).await;
    let mut audited = Audited::of(rules.leaves, &mut request).await;
    let mut response = match rules.check(&caller, request.headers()) {
        Ok(is_platform) => {
            if let Some(audited) = &mut audited {
                audited.is_platform = is_platform;
            }
            request.extensions_mut().insert(MaxBody(rules.max_body));
            once::run(rules.route, request, next).await
        }
        Err(failure) => {
            // Who comes at a bad time is not refused.
            if failure.is_refusal() {
                rules.metrics.denied();
            }
            failure.into_response()
        }
    };
    if let Some(audited) = audited {
        response.extensions_mut().insert(audited);
    }
    let (code, took) = (response.status().as_u16(), began.elapsed());
    rules.metrics.answered(rules.route, is_write, code, took);
    response
}

/// Tells the span of a request about which run it is, where its address names one.
async fn tell_run(route: &str, request: &mut Request) {
    if !route.contains("{execution_id}") {
        return;
    }
    let Some(span) = request.extensions().get::<Span>().cloned() else {
        return;
    };
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let mut params = params.iter().flat_map(RawPathParams::iter);
    let id = params.find(|(key, _)| *key == "execution_id");
    // What is no id may be anything, of any length.
    if let Some(Ok(id)) = id.map(|(_, id)| id.parse::<ExecutionId>()) {
        span.record("execution_id", tracing::field::display(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_scopes_is_enough() {
        let developer: Caller = Ok(Identity::developer());
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

    /// A publisher that is told to come back does; one that is told that it is nobody gives up.
    #[test]
    fn who_comes_at_a_bad_time_is_told_so_by_the_internal_api_too() {
        let internal = Access::Internal(Scope::InternalOutbox);
        let status = |code: ErrorCode| {
            let caller: Caller = Err(Failure::new(code, "why"));
            let refused = internal.check(&caller).unwrap_err();
            refused.into_response().status().as_u16()
        };
        for (code, expected) in [
            (ErrorCode::Unauthenticated, 403),
            (ErrorCode::TokenExpired, 403),
            (ErrorCode::Forbidden, 403),
            (ErrorCode::RateLimited, 429),
            (ErrorCode::StoreUnavailable, 503),
        ] {
            assert_eq!(status(code), expected, "{code:?}");
        }
    }
}
