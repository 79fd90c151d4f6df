//! Authenticates requests, limits their rate, and builds their audit records.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse as _, Response};
use noetl_types::{ErrorCode, Text};
use tracing::Span;

use super::access::{AuditMark, Caller, CallerIdentity};
use super::cors::{AllowedOrigins, CorsRequest};
use super::identity::{self, PresentedToken};
use super::rate_limit::CallerLimits;
use crate::access::{CallContext, SecretAuditContext};
use crate::http::http_error::HttpError;
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::services::audit_log::{AuditLog, AuditRecord};

/// Client of a connection, as identified by the connection itself.
#[derive(Debug, Clone)]
pub(in crate::http) struct ClientPeer {
    pub(in crate::http) address: SocketAddr,
    /// Identity that the connection proves: that of a client certificate, or the owner of the server.
    pub(in crate::http) connection_identity: Option<CallerIdentity>,
}

impl ClientPeer {
    /// The user who runs this server, connected over its Unix socket.
    pub(in crate::http) fn owner() -> Self {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        Self { address, connection_identity: Some(CallerIdentity::owner()) }
    }
}

impl From<SocketAddr> for ClientPeer {
    fn from(address: SocketAddr) -> Self {
        Self { address, connection_identity: None }
    }
}

/// Authenticates the caller of every request, before routing.
pub(in crate::http) struct Authenticator {
    services: ControlPlane,
    is_dev: bool,
    limits: CallerLimits,
    allowed_origins: AllowedOrigins,
}

/// The parts of a request that logs and audit records contain.
pub(in crate::http) struct RequestInfo {
    peer: SocketAddr,
    method: Method,
    uri: Uri,
    identity: Option<CallerIdentity>,
}

/// Maximum bytes of a request path in an audit record.
const MAX_TARGET_BYTES: usize = 300;

impl Authenticator {
    pub(in crate::http) fn new(services: ControlPlane, settings: &HttpSettings) -> Self {
        Self {
            services,
            is_dev: settings.is_dev,
            limits: CallerLimits::new(settings),
            allowed_origins: settings.allowed_origins.clone(),
        }
    }

    /// Reads the CORS headers of a request.
    pub(in crate::http) fn cors_request(&self, request: &Request<Body>) -> CorsRequest {
        self.allowed_origins.cors_request(request)
    }

    /// Authenticates a request and counts it against the rate limits.
    ///
    /// A token or command token takes precedence. If it is invalid, the request is unauthenticated,
    /// even if it comes from this machine or with a client certificate.
    pub(in crate::http) async fn authenticate_request(
        &self,
        peer: &ClientPeer,
        uri: &Uri,
        headers: &HeaderMap,
        command_token: Option<PresentedToken>,
    ) -> Caller {
        let identity = match command_token {
            Some(token) => CallerIdentity::from_command_token(
                self.services.identities.verify_command_token(token.expose_secret())?,
            ),
            None => self.authenticate_peer(peer, uri, headers).await?,
        };
        let request = self.limits.admit_request(&identity)?;
        Ok(identity.with_active_request(request))
    }

    /// Limits guesses of tokens: replaces the response to a failed authentication if the address of
    /// the client has failed too often. Valid tokens of the same address are still accepted.
    pub(in crate::http) fn limit_guesses(&self, peer: &ClientPeer, response: Response) -> Response {
        let is_denied = matches!(response.status().as_u16(), 401 | 403);
        if !is_denied || !self.limits.is_failure_excessive(peer.address.ip()) {
            return response;
        }
        let text = "too many failed authentications from this address; retry later";
        HttpError::new(ErrorCode::RateLimited, text).into_response()
    }

    async fn authenticate_peer(&self, peer: &ClientPeer, uri: &Uri, headers: &HeaderMap) -> Caller {
        match (identity::request_token(headers)?, &peer.connection_identity) {
            (Some(presented), _) => {
                let token =
                    self.services.identities.authenticate_token(presented.expose_secret()).await?;
                Ok(CallerIdentity::from_token(&token))
            }
            (None, Some(connection_identity)) => {
                identity::check_certificate_origin(uri, headers, &self.allowed_origins)?;
                Ok(connection_identity.clone())
            }
            (None, None) if self.is_dev => {
                let client =
                    identity::check_developer(peer.address, uri, headers, &self.allowed_origins)?;
                Ok(CallerIdentity::local_developer(client))
            }
            (None, None) => {
                let text = "authentication required: send the header Authorization: Bearer TOKEN";
                Err(HttpError::new(ErrorCode::Unauthenticated, text))
            }
        }
    }

    /// Builds the audit record of a request, or `None` if its outcome is not audited.
    pub(in crate::http) fn audit_request(
        &self,
        info: &RequestInfo,
        response: &Response,
    ) -> Option<RequestAudit> {
        let is_refusal = matches!(response.status().as_u16(), 401 | 403);
        let mark = response.extensions().get::<AuditMark>();
        if mark.is_none() && !is_refusal {
            return None;
        }
        let error = response.extensions().get::<HttpError>();
        let outcome: Text = error.map_or_else(|| AuditRecord::OK.into(), HttpError::code);
        let is_platform = mark.is_some_and(|mark| mark.is_platform);
        let (actor, context) = match &info.identity {
            Some(identity) => (identity.actor(), identity.auth_context().clone()),
            None if is_platform => ("platform".into(), crate::AuthContext::default()),
            None => ("anonymous".into(), crate::AuthContext::default()),
        };
        // An unauthenticated request cannot have reached a secret.
        let is_authenticated = is_platform || info.identity.is_some();
        let secret = mark.and_then(|mark| mark.secret.as_ref());
        let address = info.peer.ip().to_canonical().to_string();
        let record = AuditRecord {
            actor,
            token_id: info.identity.as_ref().and_then(CallerIdentity::token_id),
            action: match mark {
                Some(mark) => mark.route.clone(),
                None => "access".into(),
            },
            target: Some(audit_target(&info.uri)),
            address: Some(address.into()),
            outcome,
            secret: secret.filter(|_| is_authenticated).map(SecretAuditContext::collected),
        };
        // Refused access to a secret gets an entry each time, like successful access: the caller is
        // authenticated in both cases, so rate limits bound the number of entries.
        let is_aggregated = is_refusal && record.secret.is_none();
        let audit_log = Arc::clone(&self.services.audit);
        Some(RequestAudit { audit_log, ctx: context.into(), record, is_aggregated })
    }
}

/// An audit record of a request.
pub(in crate::http) struct RequestAudit {
    audit_log: Arc<AuditLog>,
    ctx: CallContext,
    record: AuditRecord,
    is_aggregated: bool,
}

impl RequestAudit {
    /// Records the audit. Fails if the record must be stored before the response is sent and cannot
    /// be: the error then replaces the response.
    pub(in crate::http) async fn record_request(self) -> Result<(), HttpError> {
        // Refused callers can retry without limit, so their refusals are aggregated: otherwise they
        // could fill the disk.
        if self.is_aggregated {
            self.audit_log.record_refusal(&self.ctx, self.record);
            return Ok(());
        }
        Ok(self.audit_log.record_audit(&self.ctx, self.record).await?)
    }
}

impl RequestInfo {
    pub(in crate::http) fn from_parts(
        peer: &ClientPeer,
        method: &Method,
        uri: &Uri,
        caller: &Caller,
    ) -> Self {
        Self {
            peer: peer.address,
            method: method.clone(),
            uri: uri.clone(),
            identity: caller.as_ref().ok().cloned(),
        }
    }

    /// Records the tenant and the actor in a span.
    pub(in crate::http) fn record_in_span(&self, span: &Span) {
        if let Some(identity) = &self.identity {
            span.record("tenant", identity.auth_context().tenant_id.as_str());
            span.record("actor", identity.actor().as_str());
        }
    }

    pub(in crate::http) fn method(&self) -> &Method {
        &self.method
    }

    pub(in crate::http) fn uri(&self) -> &Uri {
        &self.uri
    }
}

/// Returns the path of a request, without the query, which may contain secrets.
fn audit_target(uri: &Uri) -> Text {
    let path = uri.path();
    let end = path.floor_char_boundary(MAX_TARGET_BYTES);
    path.get(..end).unwrap_or_default().into()
}
