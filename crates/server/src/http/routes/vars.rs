//! Variables of executions.

use noetl_api::paths;
use noetl_api::vars::{DeleteVariablesResponse, SetVariablesResponse, VariableList, VariableView};
use noetl_types::JsonMap;

use super::{EXEC_READ_OR_WORKER, MAX_BATCH_BODY_SIZE, Route, WORKER, delete, get, handlers, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::{PathExecutionId, PathVariable};
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::VARS, EXEC_READ_OR_WORKER, list_variables).accepts_command_token(),
        post(paths::VARS, WORKER, set_variables)
            .max_body(MAX_BATCH_BODY_SIZE)
            .accepts_command_token(),
        delete(paths::VARS, WORKER, clear_variables).accepts_command_token(),
        get(paths::VAR, EXEC_READ_OR_WORKER, get_variable).accepts_command_token(),
        delete(paths::VAR, WORKER, delete_variable).accepts_command_token(),
    ]
}

/// Returns a variable.
async fn get_variable(
    AuthorizedCall(app): AuthorizedCall,
    PathVariable(execution_id, name): PathVariable,
) -> Result<JsonResponse<VariableView>, HttpError> {
    Ok(JsonResponse(app.services.queries.get_var(&app.ctx, execution_id, &name).await?))
}

/// Deletes a variable.
async fn delete_variable(
    AuthorizedCall(app): AuthorizedCall,
    PathVariable(execution_id, name): PathVariable,
) -> Result<JsonResponse<DeleteVariablesResponse>, HttpError> {
    let deleted = app.services.queries.delete_vars(&app.ctx, execution_id, Some(&name));
    Ok(JsonResponse(deleted.await?))
}

handlers! {
    /// Lists the variables of an execution.
    list_variables(app: AuthorizedCall, execution_id: PathExecutionId) -> VariableList =>
        app.services.queries.list_vars(&app.ctx, execution_id);
    /// Sets variables of an execution.
    set_variables(app: AuthorizedCall, execution_id: PathExecutionId, body: JsonBody<JsonMap>)
        -> SetVariablesResponse => app.services.queries.set_vars(&app.ctx, execution_id, body);
    /// Deletes all variables of an execution.
    clear_variables(app: AuthorizedCall, execution_id: PathExecutionId)
        -> DeleteVariablesResponse =>
        app.services.queries.delete_vars(&app.ctx, execution_id, None);
}
