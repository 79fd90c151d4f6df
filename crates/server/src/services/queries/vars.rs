//! Variables that workers and people store for an execution.

use noetl_api::vars::{
    DeleteVariablesResponse, SetVariableRequest, SetVariablesResponse, VariableList, VariableView,
};
use noetl_store::{ExecutionVar, SetVarsError, VarKind};
use noetl_types::{ExecutionId, Json, JsonMap, Text, Timestamp};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;

impl Queries {
    /// Sets variables atomically, from a list or from a map of names to values.
    pub async fn set_vars(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        body: JsonMap,
    ) -> Result<SetVariablesResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let body = vec![(execution_id, Json::from(body))];
        let redacted = self
            .results
            .secrets
            .redact_issued_secrets(body, |body, secrets| secrets.redact_json(body))
            .await?;
        let body = redacted.first().and_then(Json::as_map);
        let vars = parse_vars(body.unwrap_or(&JsonMap::new()), self.infra.now())?;
        let count = u32::try_from(vars.len()).unwrap_or(u32::MAX);
        let set = self.infra.store().set_vars(execution_id, vars).await;
        set.map_err(|error| match error {
            SetVarsError::InvalidName | SetVarsError::TooMany => {
                RuntimeError::invalid(error.to_string())
            }
            SetVarsError::TooLarge { .. } => RuntimeError::too_large(error.to_string()),
            SetVarsError::Store(error) => error.into(),
        })?;
        Ok(SetVariablesResponse { execution_id, variables_set: count, status: "ok".into() })
    }

    /// Lists the variables of an execution.
    pub async fn list_vars(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
    ) -> Result<VariableList> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let vars = self.infra.store().list_vars(execution_id, None).await?;
        Ok(VariableList {
            execution_id,
            count: u32::try_from(vars.len()).unwrap_or(u32::MAX),
            variables: vars.into_iter().map(|var| (var.name.as_str().into(), var.value)).collect(),
        })
    }

    /// Returns a variable of an execution.
    pub async fn get_var(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        name: &str,
    ) -> Result<VariableView> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let name = parse_var_name(name)?;
        let found = self.infra.store().list_vars(execution_id, Some(&name)).await?;
        let var = found.into_iter().next().ok_or_else(var_not_found)?;
        Ok(VariableView {
            execution_id,
            var_name: var.name,
            var_value: var.value,
            var_type: var.kind.as_str().into(),
            source_step: var.source_step,
            set_at: var.set_at,
        })
    }

    /// Deletes one variable of an execution, which must exist, or all of them.
    pub async fn delete_vars(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        name: Option<&str>,
    ) -> Result<DeleteVariablesResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let name = name.map(parse_var_name).transpose()?;
        let deleted = self.infra.store().delete_vars(execution_id, name.as_ref());
        let deleted = deleted.await?;
        if name.is_some() && deleted == 0 {
            return Err(var_not_found());
        }
        Ok(DeleteVariablesResponse { execution_id, deleted, status: "ok".into() })
    }
}

fn parse_vars(body: &JsonMap, now: Timestamp) -> Result<Vec<ExecutionVar>> {
    let Some(list) = body.get("variables").and_then(Json::as_list) else {
        let pairs = body.iter();
        return pairs
            .map(|(name, value)| {
                Ok(ExecutionVar {
                    name: parse_var_name(name)?,
                    kind: VarKind::UserDefined,
                    value: value.clone(),
                    source_step: None,
                    set_at: now,
                })
            })
            .collect();
    };
    list.iter().map(|var| parse_var(var, now)).collect()
}

fn parse_var(var: &Json, now: Timestamp) -> Result<ExecutionVar> {
    let parsed: Result<SetVariableRequest, _> =
        serde_json::to_value(var).and_then(serde_json::from_value);
    let var =
        parsed.map_err(|error| RuntimeError::invalid(format!("invalid variable: {error}")))?;
    let kind = match &var.var_type {
        None => VarKind::UserDefined,
        Some(kind) => {
            VarKind::parse(kind).map_err(|error| RuntimeError::invalid(error.to_string()))?
        }
    };
    Ok(ExecutionVar {
        name: var.var_name,
        kind,
        value: var.var_value,
        source_step: var.source_step,
        set_at: now,
    })
}

fn parse_var_name(name: &str) -> Result<Text> {
    Text::new(name).map_err(|error| RuntimeError::invalid(error.to_string()))
}

fn var_not_found() -> RuntimeError {
    RuntimeError::not_found("there is no such variable")
}
