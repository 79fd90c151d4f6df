//! Variables that workers and people keep beside an execution.

use noetl_api::vars::{NewVar, VarView, Vars, VarsDeleted, VarsSet};
use noetl_store::{Var, VarKind, VarsRefused};
use noetl_types::{ErrorCode, ExecutionId, Json, JsonMap, Text, Timestamp};

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Sets variables, all of them or none: a list of them, or a map of names and values.
    pub async fn set_vars(
        &self,
        execution_id: ExecutionId,
        body: JsonMap,
    ) -> Result<VarsSet, RuntimeError> {
        self.execution_row(execution_id).await?;
        let vars = read(&body, self.now())?;
        let count = u32::try_from(vars.len()).unwrap_or(u32::MAX);
        let set = self.store().set_vars(execution_id, vars).await;
        set.map_err(|refused| match refused {
            VarsRefused::Name | VarsRefused::TooMany => invalid(refused.to_string()),
            VarsRefused::TooLarge { .. } => {
                RuntimeError::refused(ErrorCode::TooLarge, refused.to_string())
            }
            VarsRefused::Store(error) => error.into(),
        })?;
        Ok(VarsSet {
            execution_id,
            variables_set: count,
            status: "ok".into(),
        })
    }

    /// The variables of an execution.
    pub async fn vars(&self, execution_id: ExecutionId) -> Result<Vars, RuntimeError> {
        self.execution_row(execution_id).await?;
        let vars = self.store().vars(execution_id, None).await?;
        Ok(Vars {
            execution_id,
            count: u32::try_from(vars.len()).unwrap_or(u32::MAX),
            variables: vars
                .into_iter()
                .map(|var| (var.name.as_str().into(), var.value))
                .collect(),
        })
    }

    /// A variable of an execution.
    pub async fn var(
        &self,
        execution_id: ExecutionId,
        name: &str,
    ) -> Result<VarView, RuntimeError> {
        self.execution_row(execution_id).await?;
        let name = name_of(name)?;
        let found = self.store().vars(execution_id, Some(&name)).await?;
        let var = found.into_iter().next().ok_or_else(no_var)?;
        Ok(VarView {
            execution_id,
            var_name: var.name,
            var_value: var.value,
            var_type: var.kind.as_str().into(),
            source_step: var.source_step,
            set_at: var.set_at,
        })
    }

    /// Forgets one variable of an execution, which must be there, or all of them.
    pub async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&str>,
    ) -> Result<VarsDeleted, RuntimeError> {
        self.execution_row(execution_id).await?;
        let name = name.map(name_of).transpose()?;
        let deleted = self.store().delete_vars(execution_id, name.as_ref());
        let deleted = deleted.await?;
        if name.is_some() && deleted == 0 {
            return Err(no_var());
        }
        Ok(VarsDeleted {
            execution_id,
            deleted,
            status: "ok".into(),
        })
    }
}

fn read(body: &JsonMap, now: Timestamp) -> Result<Vec<Var>, RuntimeError> {
    let Some(list) = body.get("variables").and_then(Json::as_list) else {
        let pairs = body.iter();
        return pairs
            .map(|(name, value)| {
                Ok(Var {
                    name: name_of(name)?,
                    kind: VarKind::UserDefined,
                    value: value.clone(),
                    source_step: None,
                    set_at: now,
                })
            })
            .collect();
    };
    list.iter().map(|var| read_one(var, now)).collect()
}

fn read_one(var: &Json, now: Timestamp) -> Result<Var, RuntimeError> {
    let read: Result<NewVar, _> = serde_json::to_value(var).and_then(serde_json::from_value);
    let var = read.map_err(|error| invalid(format!("a variable: {error}")))?;
    let kind = match &var.var_type {
        None => VarKind::UserDefined,
        Some(kind) => VarKind::parse(kind).map_err(|error| invalid(error.to_string()))?,
    };
    Ok(Var {
        name: var.var_name,
        kind,
        value: var.var_value,
        source_step: var.source_step,
        set_at: now,
    })
}

fn name_of(name: &str) -> Result<Text, RuntimeError> {
    Text::new(name).map_err(|error| invalid(error.to_string()))
}

fn invalid(text: String) -> RuntimeError {
    RuntimeError::refused(ErrorCode::Validation, text)
}

fn no_var() -> RuntimeError {
    RuntimeError::refused(ErrorCode::NotFound, "there is no such variable")
}
