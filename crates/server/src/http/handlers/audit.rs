//! The trail of acts.

use noetl_api::tokens::AuditPage;
use noetl_types::limits::PageLimit;

use crate::http::acting::For;
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
