//! Operations that published clients call and that this version does not have. They fail with a text
//! that says so, and are not part of the OpenAPI document.

use axum::extract::State;
use noetl_types::ErrorCode;

use super::{ADMIN, CATALOG_READ, EXEC_READ, Route, post};
use crate::http::http_error::HttpError;
use crate::http::request_context::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/api/executions/{execution_id}/analyze/ai", EXEC_READ, not_supported),
        post("/api/catalog/playbooks/explain/ai", CATALOG_READ, not_supported),
        post("/api/catalog/playbooks/generate/ai", CATALOG_READ, not_supported),
        post("/api/postgres/execute", ADMIN, sql_console).audited(),
    ]
}

async fn not_supported() -> HttpError {
    HttpError::new(
        ErrorCode::NotSupported,
        "this operation is not supported in this version; nothing was changed",
    )
}

/// Rejects SQL statements. They could not be restricted to one tenant or kept away from secrets:
/// even a read-only transaction can call functions that switch the role.
async fn sql_console(State(app): State<AppState>) -> HttpError {
    if app.has_sql_console() {
        let text = "this version has no SQL console, because statements could not be restricted to a tenant; \
            use /api/executions, or query the database with a read-only role";
        return HttpError::new(ErrorCode::NotSupported, text);
    }
    let text = "the SQL console is disabled (NOETL_SQL_CONSOLE is off), and this version does not have one";
    HttpError::new(ErrorCode::Forbidden, text)
}
