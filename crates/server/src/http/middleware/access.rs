//! Authorization of routes.
//!
//! Each route declares the access that it requires. [`crate::http::routes`] makes the declaration
//! mandatory.

use std::sync::Arc;

use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, RequestExt as _};
use noetl_store::ApiToken;
use noetl_types::{
    ByteSize, ErrorCode, ExecutionId, ScopeSet, SecretOperation, TenantId, Text, TokenId,
};
use tokio::time::Instant;
use tracing::Span;

use super::idempotency;
use super::identity::LocalClient;
use super::internal_token::{self, InternalToken};
use super::rate_limit::ActiveRequest;
use crate::access::{AuthContext, SecretAuditContext};
use crate::http::http_error::HttpError;
use crate::metrics::Metrics;
use crate::services::command_token::CommandToken;
use crate::services::identities::TokenReference;

pub(in crate::http) use noetl_types::Scope;

/// Identity of an authenticated caller.
#[derive(Debug, Clone)]
pub(in crate::http) struct CallerIdentity {
    details: Arc<IdentityDetails>,
    /// Counts the request as active while any copy of the identity exists.
    #[expect(dead_code, reason = "the request ends when the last copy is dropped")]
    active_request: Option<Arc<ActiveRequest>>,
}

#[derive(Debug)]
struct IdentityDetails {
    actor: Text,
    auth_context: AuthContext,
    /// The API token of the request, if any.
    token: Option<TokenReference>,
    /// True if the caller presented a credential; false for a local developer without a token.
    is_authenticated: bool,
}

impl From<IdentityDetails> for CallerIdentity {
    fn from(details: IdentityDetails) -> Self {
        Self { details: Arc::new(details), active_request: None }
    }
}

impl CallerIdentity {
    /// Identity of a local client without a token in development mode. It has all scopes except
    /// those of internal routes. Only the operator has `admin`, and not a page of another origin.
    pub(in crate::http) fn local_developer(client: LocalClient) -> Self {
        let needs_token = |scope: &Scope| match scope {
            Scope::Admin => client != LocalClient::Operator,
            scope => scope.is_internal(),
        };
        let scopes = Scope::ALL.iter().copied();
        Self::from(IdentityDetails {
            actor: "developer".into(),
            auth_context: AuthContext {
                scopes: Some(scopes.filter(|scope| !needs_token(scope)).collect()),
                ..AuthContext::default()
            },
            token: None,
            is_authenticated: false,
        })
    }

    pub(in crate::http) fn from_token(token: &ApiToken) -> Self {
        Self::from(IdentityDetails {
            actor: token.name.clone(),
            auth_context: AuthContext {
                tenant_id: token.tenant_id.clone(),
                organization_id: token.organization_id.clone(),
                pools: token.pools.as_deref().map(Arc::from),
                path_globs: token.path_globs.as_deref().map(Arc::from),
                command_token: None,
                scopes: Some(token.scopes),
            },
            token: Some(TokenReference::from_token(token)),
            is_authenticated: true,
        })
    }

    pub(in crate::http) fn from_command_token(token: CommandToken) -> Self {
        Self::from(IdentityDetails {
            actor: format!("command:{}", token.command_id).into(),
            auth_context: token.into_auth_context(),
            token: None,
            is_authenticated: true,
        })
    }

    pub(in crate::http) fn from_certificate(actor: Text, auth_context: AuthContext) -> Self {
        Self::from(IdentityDetails { actor, auth_context, token: None, is_authenticated: true })
    }

    /// Identity of the user who runs this server: has all scopes.
    pub(in crate::http) fn owner() -> Self {
        let scopes = Some(Scope::ALL.iter().copied().collect());
        Self::from_certificate("owner".into(), AuthContext { scopes, ..AuthContext::default() })
    }

    /// Returns the identity with the request that it is used for.
    pub(in crate::http) fn with_active_request(self, request: ActiveRequest) -> Self {
        Self { active_request: Some(Arc::new(request)), ..self }
    }

    pub(in crate::http) fn command_token(&self) -> Option<&CommandToken> {
        self.details.auth_context.command_token.as_ref()
    }

    pub(in crate::http) fn allows_scope(&self, scope: Scope) -> bool {
        self.details.auth_context.allows_scope(scope)
    }

    pub(in crate::http) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.details.auth_context.scopes.into_iter().flat_map(ScopeSet::iter)
    }

    /// Name of the caller, as recorded in the logs of executions.
    pub(in crate::http) fn actor(&self) -> Text {
        self.details.actor.clone()
    }

    /// Name of the caller, if it presented a credential.
    pub(in crate::http) fn authenticated_actor(&self) -> Option<Text> {
        self.details.is_authenticated.then(|| self.actor())
    }

    /// Tenant, pools, paths and scopes of the caller.
    pub(in crate::http) fn auth_context(&self) -> &AuthContext {
        &self.details.auth_context
    }

    /// True if the caller belongs to the operator tenant.
    fn is_operator(&self) -> bool {
        self.details.auth_context.tenant_id == TenantId::default()
    }

    /// True for an admin who could create a token with any scope.
    fn is_unrestricted_admin(&self) -> bool {
        let context = &self.details.auth_context;
        let is_restricted = context.path_globs.is_some() || context.pools.is_some();
        context.allows_scope(Scope::Admin) && !is_restricted
    }

    pub(in crate::http) fn token_reference(&self) -> Option<&TokenReference> {
        self.details.token.as_ref()
    }

    pub(in crate::http) fn token_id(&self) -> Option<TokenId> {
        self.token_reference().map(|token| token.token_id)
    }
}

/// Result of authentication: the identity, or the reason why authentication failed.
pub(in crate::http) type Caller = Result<CallerIdentity, HttpError>;

/// Access that a route requires.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) enum RouteAccess {
    /// No authentication.
    Open,
    /// Any authenticated caller.
    Identity,
    /// A token in the body or in a header. The handler checks it.
    BodyToken,
    /// At least one of these scopes.
    AnyOf(&'static [Scope]),
    /// The token of the internal API, this scope, or `admin` of the operator tenant. A scope that is
    /// not internal counts only for the operator tenant.
    Internal(Scope),
}

/// Declarations of a route.
#[derive(Debug, Clone)]
pub(in crate::http) struct RouteRules {
    pub(in crate::http) access: RouteAccess,
    pub(in crate::http) max_body: ByteSize,
    /// Token of the internal API. If absent, the internal API is closed.
    pub(in crate::http) internal: Option<InternalToken>,
    /// Path of the route, used as metrics label.
    pub(in crate::http) route: &'static str,
    pub(in crate::http) metrics: Arc<Metrics>,
    pub(in crate::http) audit_policy: AuditPolicy,
    /// True if the route is part of the work on a command, so that a command token grants access.
    pub(in crate::http) accepts_command_token: bool,
}

/// Audit records that calls of a route create.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) enum AuditPolicy {
    /// No record.
    Unaudited,
    /// One record per call.
    Request,
    /// One record per call, with the operation on a secret.
    SecretOperation(SecretOperation),
}

/// Marks the response of an audited call.
#[derive(Debug, Clone)]
pub(in crate::http) struct AuditMark {
    /// Method and path pattern of the route.
    pub(in crate::http) route: Text,
    /// Collects the facts of the operation on a secret.
    pub(in crate::http) secret: Option<SecretAuditContext>,
    /// True if the token of the internal API granted access. It belongs to no identity.
    pub(in crate::http) is_platform: bool,
}

impl AuditMark {
    async fn for_route(policy: AuditPolicy, request: &mut Request) -> Option<Self> {
        let secret = match policy {
            AuditPolicy::Unaudited => return None,
            AuditPolicy::Request => None,
            AuditPolicy::SecretOperation(operation) => {
                let params = request.extract_parts::<RawPathParams>().await.ok();
                let find_name = |params: &RawPathParams| {
                    let mut params = params.iter();
                    let name = params.find(|(key, _)| SECRET_NAME_PARAMS.contains(key));
                    name.map(|(_, name)| name.to_owned())
                };
                let name = params.as_ref().and_then(find_name);
                Some(SecretAuditContext::new(operation, name.as_deref()))
            }
        };
        if let Some(context) = &secret {
            request.extensions_mut().insert(context.clone());
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

/// Path parameters that contain the name of a secret.
const SECRET_NAME_PARAMS: [&str; 2] = ["credential", "name"];

/// Maximum body size of the route of a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct MaxBody(pub(in crate::http) ByteSize);

impl RouteAccess {
    /// Checks that a caller has the required access.
    fn authorize_caller(self, caller: &Caller) -> Result<(), HttpError> {
        let scopes = match self {
            Self::Open | Self::BodyToken => return Ok(()),
            Self::Identity => {
                return caller.as_ref().map(drop).map_err(HttpError::clone);
            }
            Self::AnyOf(scopes) => scopes,
            Self::Internal(scope) => {
                let is_allowed = |identity: &CallerIdentity| {
                    // Only the operator grants internal scopes, so its admins need no others. The
                    // admins of other tenants have no rights on the platform as a whole. A local
                    // developer presents no credential, and internal routes require one.
                    let is_granted = scope.is_internal() && identity.allows_scope(scope);
                    let is_operator = identity.is_operator()
                        && (identity.allows_scope(scope) || identity.is_unrestricted_admin());
                    identity.details.is_authenticated && (is_granted || is_operator)
                };
                return match caller {
                    Ok(identity) if is_allowed(identity) => Ok(()),
                    // A temporary failure: the credential may be valid, so the caller can retry.
                    Err(error) if !error.is_access_denied() => Err(error.clone()),
                    Ok(_) | Err(_) => Err(internal_token::internal_token_required()),
                };
            }
        };
        let identity = caller.as_ref().map_err(HttpError::clone)?;
        if scopes.iter().any(|scope| identity.allows_scope(*scope)) {
            return Ok(());
        }
        let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        Err(HttpError::new(
            ErrorCode::Forbidden,
            format!("this requires the scope {}", names.join(" or ")),
        ))
    }
}

impl RouteRules {
    /// Checks that a request has the required access. Returns true if the token of the internal API
    /// granted it.
    fn authorize_request(&self, caller: &Caller, headers: &HeaderMap) -> Result<bool, HttpError> {
        let has_command_token = |caller: &CallerIdentity| caller.command_token().is_some();
        if !self.accepts_command_token && caller.as_ref().is_ok_and(has_command_token) {
            let text = "a command token grants access only to the routes of its command";
            return Err(HttpError::new(ErrorCode::Forbidden, text));
        }
        let authorized = self.access.authorize_caller(caller).map(|()| false);
        if !matches!(self.access, RouteAccess::Internal(_)) || authorized.is_ok() {
            return authorized;
        }
        match internal_token::check_internal_token(self.internal, headers) {
            Ok(true) => Ok(true),
            Ok(false) => authorized,
            Err(disabled) => Err(disabled),
        }
    }
}

/// Middleware of a route: authorizes the request, marks it for the audit log, and counts it.
pub(in crate::http) async fn authorize_route(
    State(rules): State<RouteRules>,
    Extension(caller): Extension<Caller>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let is_write = !request.method().is_safe();
    record_execution_id(rules.route, &mut request).await;
    let mut audit_mark = AuditMark::for_route(rules.audit_policy, &mut request).await;
    let mut response = match rules.authorize_request(&caller, request.headers()) {
        Ok(is_platform) => {
            if let Some(audit_mark) = &mut audit_mark {
                audit_mark.is_platform = is_platform;
            }
            request.extensions_mut().insert(MaxBody(rules.max_body));
            idempotency::run_idempotent(rules.route, request, next).await
        }
        Err(error) => {
            // Temporary failures, such as rate limits, are not authorization failures.
            if error.is_access_denied() {
                rules.metrics.server.auth_failures.inc();
            }
            error.into_response()
        }
    };
    if let Some(audit_mark) = audit_mark {
        response.extensions_mut().insert(audit_mark);
    }
    let (status, elapsed) = (response.status().as_u16(), started.elapsed());
    rules.metrics.record_http_request(rules.route, is_write, status, elapsed);
    response
}

/// Records the execution id of the path in the span of the request.
async fn record_execution_id(route: &str, request: &mut Request) {
    if !route.contains("{execution_id}") {
        return;
    }
    let Some(span) = request.extensions().get::<Span>().cloned() else {
        return;
    };
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let mut params = params.iter().flat_map(RawPathParams::iter);
    let id = params.find(|(key, _)| *key == "execution_id");
    // Record only valid ids: other text could have any length and content.
    if let Some(Ok(id)) = id.map(|(_, id)| id.parse::<ExecutionId>()) {
        span.record("execution_id", tracing::field::display(id));
    }
}

#[cfg(test)]
mod tests;
