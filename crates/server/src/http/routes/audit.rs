//! The audit log.

use noetl_api::paths;
use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditResponse};
use noetl_api::tokens::AuditPage;
use noetl_types::Timestamp;
use noetl_types::limits::PageLimit;

use super::{ADMIN, PLATFORM, Route, get};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::QueryParams;
use crate::http::request_context::{AuthorizedCall, PlatformCall};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::AUDIT, ADMIN, list_audit_log),
        get(paths::SECRET_AUDIT, PLATFORM, list_secret_operations),
    ]
}

/// Lists the audit log of the tenant, newest first.
async fn list_audit_log(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<AuditPage>, HttpError> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text_param("cursor")?;
    params.reject_unknown()?;
    Ok(JsonResponse(app.services.audit.audit_page(&app.ctx, limit, cursor).await?))
}

/// Lists the operations on secrets of all tenants, newest first.
async fn list_secret_operations(
    PlatformCall(call): PlatformCall,
    mut params: QueryParams,
) -> Result<JsonResponse<SecretAuditResponse>, HttpError> {
    let defaults = SecretAuditQuery::default();
    let limit = params.number_param("limit", 1..=SecretAuditQuery::MAX_ROWS)?;
    let query = SecretAuditQuery {
        credential: params.text_param("credential")?,
        execution_id: params.parse_param("execution_id", str::parse)?,
        from: params.parse_param("from", Timestamp::parse)?,
        to: params.parse_param("to", Timestamp::parse)?,
        limit: limit.unwrap_or(defaults.limit),
    };
    Ok(JsonResponse(call.services.audit.list_secret_audit(query).await?))
}
