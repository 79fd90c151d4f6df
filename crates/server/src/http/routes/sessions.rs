//! Login of the published console. A session is an API token: these routes check it and create
//! nothing.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use noetl_api::paths;
use noetl_api::session::{
    AccessRequest, AccessResponse, SessionRequest, SessionResponse, SessionUser,
};
use noetl_types::{PlaybookPath, Text, Timestamp};

use super::{Route, post};
use crate::http::body::JsonBodyOrDefault;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::middleware::access::{Caller, CallerIdentity, RouteAccess, Scope};
use crate::http::middleware::identity::RejectedToken;
use crate::http::request_context::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post(paths::AUTH_VALIDATE, RouteAccess::BodyToken, validate_session),
        post(paths::AUTH_CHECK_ACCESS, RouteAccess::BodyToken, check_session_access),
    ]
}

/// Validates a token.
async fn validate_session(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<SessionRequest>,
) -> Result<JsonResponse<SessionResponse>, SessionError> {
    let (identity, expires_at) = identify(&app, caller, request.session_token).await?;
    Ok(JsonResponse(SessionResponse { valid: true, user: to_session_user(&identity), expires_at }))
}

/// Checks if a token allows an action on a playbook.
async fn check_session_access(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<AccessRequest>,
) -> Result<JsonResponse<AccessResponse>, SessionError> {
    let (identity, _) = identify(&app, caller, request.session_token).await?;
    let scope = match &*request.permission_type {
        "" | "execute" | "run" => Scope::ExecRun,
        "view" | "read" => Scope::CatalogRead,
        "modify" | "write" | "edit" | "delete" => Scope::CatalogWrite,
        _ => Scope::Admin,
    };
    let path = PlaybookPath::new(&*request.playbook_path).ok();
    let can_see_path = identity.auth_context().can_see_path(path.as_ref());
    Ok(JsonResponse(AccessResponse {
        allowed: can_see_path && identity.allows_scope(scope),
        playbook_path: request.playbook_path,
        permission_type: request.permission_type,
        user: to_session_user(&identity),
    }))
}

/// Returns the owner of the token in the body, or else the caller.
async fn identify(
    app: &AppState,
    caller: Caller,
    session_token: Option<Text>,
) -> Result<(CallerIdentity, Option<Timestamp>), SessionError> {
    let Some(text) = session_token.filter(|token| !token.is_empty()) else {
        return Ok((caller.map_err(SessionError::Caller)?, None));
    };
    let token = app.services().identities.authenticate_token(&text).await;
    let token = token.map_err(|error| SessionError::Token(error.into()))?;
    Ok((CallerIdentity::from_token(&token), token.expires_at))
}

fn to_session_user(identity: &CallerIdentity) -> SessionUser {
    let actor = identity.actor();
    SessionUser {
        user_id: actor.clone(),
        email: actor.clone(),
        display_name: actor,
        roles: identity.scopes().map(|scope| scope.as_str().into()).collect(),
    }
}

/// Error of a session.
enum SessionError {
    /// The caller is not authenticated.
    Caller(HttpError),
    /// The token in the body is invalid, which counts as a guess.
    Token(HttpError),
}

impl IntoResponse for SessionError {
    fn into_response(self) -> Response {
        match self {
            Self::Caller(error) => error.into_response(),
            Self::Token(error) => {
                let mut response = error.into_response();
                response.extensions_mut().insert(RejectedToken);
                response
            }
        }
    }
}
