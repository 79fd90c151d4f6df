//! Rendering of a command's values, and the inputs that are missing for it.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::super::environment::{TaskEnvironment, WHOLE_KEYCHAIN};
use super::{CommandState, MachineHost, RenderFailure};
use crate::model::{NamedValues, SetClause, SetTarget, Task, ToolKind};
use crate::template::{
    DynamicValue, FetchNeed, PathSegment, RenderError, RenderErrorKind, RenderedValue, ValuePath,
};

/// Rendered values of a `set` with their targets.
pub(super) type Writes = Vec<(SetTarget, Json)>;

impl CommandState {
    pub(super) fn render_fields(
        &self,
        fields: &NamedValues,
        environment: &TaskEnvironment<'_>,
    ) -> Result<JsonMap, RenderFailure> {
        let rendered = fields.iter().map(|field| {
            let value = self.render_value(&field.value, environment)?;
            Ok((Arc::clone(&field.name.value), value))
        });
        rendered.collect()
    }

    pub(super) fn render_set(
        &self,
        set: &SetClause,
        environment: &TaskEnvironment<'_>,
    ) -> Result<Writes, RenderFailure> {
        let rendered = set.0.iter().map(|entry| {
            let value = self.render_value(&entry.value, environment)?;
            Ok((entry.target.value.clone(), value))
        });
        rendered.collect()
    }

    pub(super) fn render_value(
        &self,
        value: &DynamicValue,
        environment: &TaskEnvironment<'_>,
    ) -> Result<Json, RenderFailure> {
        self.render_dynamic(value, environment).map(|rendered| rendered.value)
    }

    fn render_dynamic(
        &self,
        value: &DynamicValue,
        environment: &TaskEnvironment<'_>,
    ) -> Result<RenderedValue, RenderFailure> {
        let rendered = value.render(environment);
        let rendered = rendered.map_err(|error| self.render_failure(&error, &error.to_string()))?;
        // A value that is made from a secret is secret too, but cannot be recognized by its value.
        for secret in rendered.secret_values() {
            self.secret_set.add_derived(secret);
        }
        Ok(rendered)
    }

    /// The configuration keys of a task. Each side of a transfer has a separate credential.
    pub(super) fn render_config(
        &self,
        task: &Task,
        environment: &TaskEnvironment<'_>,
    ) -> Result<JsonMap, RenderFailure> {
        if task.kind.value != ToolKind::Transfer {
            return self.render_fields(&task.config, environment);
        }
        let rendered = task.config.iter().map(|field| {
            let rendered = self.render_dynamic(&field.value, environment)?;
            reject_secret_alias(&rendered, &["auth"])?;
            Ok((Arc::clone(&field.name.value), rendered.value))
        });
        rendered.collect()
    }

    /// Renders `auth`: an alias or a map.
    pub(super) fn render_auth(
        &self,
        auth: &DynamicValue,
        environment: &TaskEnvironment<'_>,
    ) -> Result<Json, RenderFailure> {
        let rendered = self.render_dynamic(auth, environment)?;
        reject_secret_alias(&rendered, &[])?;
        Ok(rendered.value)
    }

    pub(super) fn render_failure(&self, error: &RenderError, message: &str) -> RenderFailure {
        match &error.kind {
            RenderErrorKind::Needs(need) => self.missing_input(need, Some(message)),
            RenderErrorKind::Failed | RenderErrorKind::Limit(_) => {
                RenderFailure::Failed(template_error(message))
            }
        }
    }

    /// A payload is requested once. If the render still needs it, a second request would not help.
    pub(super) fn missing_input(&self, need: &FetchNeed, message: Option<&str>) -> RenderFailure {
        match need {
            FetchNeed::Payload { reference } if !self.data.payloads.contains_key(reference) => {
                RenderFailure::Needs(need.clone())
            }
            FetchNeed::Payload { .. } => {
                let message = message.unwrap_or("data in the result store cannot be read");
                RenderFailure::Failed(template_error(message))
            }
            FetchNeed::Secret { name }
                if self.host != MachineHost::Server && &**name != WHOLE_KEYCHAIN =>
            {
                RenderFailure::Needs(need.clone())
            }
            FetchNeed::Secret { name } => RenderFailure::Failed(TaskError::new(
                TaskErrorKind::Auth,
                format!(
                    "keychain entry `{name}` cannot be read here; read a single entry, in a task on a worker"
                ),
            )),
        }
    }
}

/// Rejects a secret in place of a credential alias, because requesting the credential would reveal
/// it.
fn reject_secret_alias(rendered: &RenderedValue, auth_path: &[&str]) -> Result<(), RenderFailure> {
    let is_alias = |path: &&ValuePath| {
        let is_text = matches!(path.get(&rendered.value), Some(Json::Str(_)));
        let keys = path.0.iter().map(|segment| match segment {
            PathSegment::Key(key) => Some(&**key),
            PathSegment::Index(_) => None,
        });
        let alias = auth_path.iter().map(|key| Some(*key));
        is_text && (keys.clone().eq(alias.clone()) || keys.eq(alias.chain([Some("key")])))
    };
    match rendered.secrets.iter().find(is_alias) {
        None => Ok(()),
        Some(_) => Err(RenderFailure::Failed(TaskError::new(
            TaskErrorKind::Auth,
            "'auth' contains a secret where the name of a credential is expected; use a map, such as \
             {type: bearer, token: \"{{ keychain.api.token }}\"}",
        ))),
    }
}

pub(super) fn template_error(message: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Template, message)
}
