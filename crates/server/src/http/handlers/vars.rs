//! Variables that workers and people keep beside an execution.

use noetl_api::vars::{VarView, Vars, VarsDeleted, VarsSet};
use noetl_types::JsonMap;

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::{ExecutionOf, VarOf};

/// The variables of an execution.
pub(in crate::http) async fn list(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
) -> Result<Answer<Vars>, Failure> {
    Ok(Answer(app.runtime.vars(execution_id).await?))
}

/// Sets variables.
pub(in crate::http) async fn set(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBody(body): JsonBody<JsonMap>,
) -> Result<Answer<VarsSet>, Failure> {
    Ok(Answer(app.runtime.set_vars(execution_id, body).await?))
}

/// Forgets all variables.
pub(in crate::http) async fn clear(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
) -> Result<Answer<VarsDeleted>, Failure> {
    Ok(Answer(app.runtime.delete_vars(execution_id, None).await?))
}

/// A variable.
pub(in crate::http) async fn one(
    For(app): For,
    VarOf(execution_id, name): VarOf,
) -> Result<Answer<VarView>, Failure> {
    Ok(Answer(app.runtime.var(execution_id, &name).await?))
}

/// Forgets a variable.
pub(in crate::http) async fn forget(
    For(app): For,
    VarOf(execution_id, name): VarOf,
) -> Result<Answer<VarsDeleted>, Failure> {
    let deleted = app.runtime.delete_vars(execution_id, Some(&name));
    Ok(Answer(deleted.await?))
}
