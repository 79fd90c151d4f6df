//! Variables that workers and people keep beside an execution.

use axum::extract::State;
use noetl_api::vars::{VarView, Vars, VarsDeleted, VarsSet};
use noetl_types::JsonMap;

use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::{ExecutionOf, VarOf};
use crate::http::routes::App;

/// The variables of an execution.
pub(in crate::http) async fn list(
    State(app): State<App>,
    ExecutionOf(execution_id): ExecutionOf,
) -> Result<Answer<Vars>, Failure> {
    Ok(Answer(app.runtime.vars(execution_id).await?))
}

/// Sets variables.
pub(in crate::http) async fn set(
    State(app): State<App>,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBody(body): JsonBody<JsonMap>,
) -> Result<Answer<VarsSet>, Failure> {
    Ok(Answer(app.runtime.set_vars(execution_id, body).await?))
}

/// Forgets all variables.
pub(in crate::http) async fn clear(
    State(app): State<App>,
    ExecutionOf(execution_id): ExecutionOf,
) -> Result<Answer<VarsDeleted>, Failure> {
    Ok(Answer(app.runtime.delete_vars(execution_id, None).await?))
}

/// A variable.
pub(in crate::http) async fn one(
    State(app): State<App>,
    VarOf(execution_id, name): VarOf,
) -> Result<Answer<VarView>, Failure> {
    Ok(Answer(app.runtime.var(execution_id, &name).await?))
}

/// Forgets a variable.
pub(in crate::http) async fn forget(
    State(app): State<App>,
    VarOf(execution_id, name): VarOf,
) -> Result<Answer<VarsDeleted>, Failure> {
    let deleted = app.runtime.delete_vars(execution_id, Some(&name));
    Ok(Answer(deleted.await?))
}
