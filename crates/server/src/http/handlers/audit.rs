//! The trail of acts.

use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditRows};
use noetl_api::tokens::AuditPage;
use noetl_types::Timestamp;
use noetl_types::limits::PageLimit;

use crate::http::acting::{For, ForAll};
use crate::http::answer::Answer;
use crate::http::failure::Failure;
use crate::http::params::Params;

/// What was done in the tenant, newest first.
pub(in crate::http) async fn list(
    For(app): For,
    mut params: Params,
) -> Result<Answer<AuditPage>, Failure> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text("cursor")?;
    params.nothing_else()?;
    Ok(Answer(app.runtime.audit_page(limit, cursor).await?))
}

/// What was done to secrets of all tenants, newest first.
pub(in crate::http) async fn secrets(
    ForAll(runtime): ForAll,
    mut params: Params,
) -> Result<Answer<SecretAuditRows>, Failure> {
    let usual = SecretAuditQuery::default();
    let limit = params.number("limit", 1..=SecretAuditQuery::MAX)?;
    let query = SecretAuditQuery {
        credential: params.text("credential")?,
        execution_id: params.read("execution_id", str::parse)?,
        from: params.read("from", Timestamp::parse)?,
        to: params.read("to", Timestamp::parse)?,
        limit: limit.unwrap_or(usual.limit),
    };
    Ok(Answer(runtime.secret_audit(query).await?))
}
