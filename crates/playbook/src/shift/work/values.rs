//! Values that a work renders, and what it lacks when it cannot.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::super::scope::{TaskScope, WHOLE};
use super::{Side, Stuck, Want, Work};
use crate::model::{Fields, Set, SetTarget, Task, ToolKind};
use crate::template::{Dynamic, Need, RenderError, RenderErrorKind, Rendered, Segment, ValuePath};

/// Rendered values of a `set` and where they go.
pub(super) type Writes = Vec<(SetTarget, Json)>;

impl Work {
    pub(super) fn fields(&self, fields: &Fields, scope: &TaskScope<'_>) -> Result<JsonMap, Stuck> {
        let rendered = fields.iter().map(|field| {
            let value = self.value(&field.value, scope)?;
            Ok((Arc::clone(&field.name.value), value))
        });
        rendered.collect()
    }

    pub(super) fn set_values(&self, set: &Set, scope: &TaskScope<'_>) -> Result<Writes, Stuck> {
        let rendered = set.0.iter().map(|entry| {
            let value = self.value(&entry.value, scope)?;
            Ok((entry.target.value.clone(), value))
        });
        rendered.collect()
    }

    pub(super) fn value(&self, value: &Dynamic, scope: &TaskScope<'_>) -> Result<Json, Stuck> {
        self.rendered(value, scope).map(|rendered| rendered.value)
    }

    fn rendered(&self, value: &Dynamic, scope: &TaskScope<'_>) -> Result<Rendered, Stuck> {
        let rendered = value.render(scope);
        let rendered = rendered.map_err(|error| self.stuck(&error, &error.to_string()))?;
        // What is made from a secret is one, though nobody would know it by its value.
        for secret in rendered.secret_values() {
            self.hidden.add(secret);
        }
        Ok(rendered)
    }

    /// The keys of a task's kind. Each side of a transfer asks with a credential of its own.
    pub(super) fn config(&self, task: &Task, scope: &TaskScope<'_>) -> Result<JsonMap, Stuck> {
        if task.kind.value != ToolKind::Transfer {
            return self.fields(&task.config, scope);
        }
        let rendered = task.config.iter().map(|field| {
            let rendered = self.rendered(&field.value, scope)?;
            check_alias(&rendered, &["auth"])?;
            Ok((Arc::clone(&field.name.value), rendered.value))
        });
        rendered.collect()
    }

    /// What a credential is asked for with: an alias or a map.
    pub(super) fn auth(&self, auth: &Dynamic, scope: &TaskScope<'_>) -> Result<Json, Stuck> {
        let rendered = self.rendered(auth, scope)?;
        check_alias(&rendered, &[])?;
        Ok(rendered.value)
    }

    /// The same for what belongs to no task in particular.
    pub(in crate::shift) fn plain_auth(&self, auth: &Dynamic) -> Result<Json, Stuck> {
        self.auth(auth, &self.plain_scope())
    }

    /// Renders what belongs to no task in particular.
    pub(in crate::shift) fn plainly(&self, value: &Dynamic) -> Result<Json, Stuck> {
        self.value(value, &self.plain_scope())
    }

    /// The same for many.
    pub(in crate::shift) fn plain_fields(&self, fields: &Fields) -> Result<JsonMap, Stuck> {
        self.fields(fields, &self.plain_scope())
    }

    fn plain_scope(&self) -> TaskScope<'_> {
        TaskScope {
            bench: &self.bench,
            label: "",
            idempotency_key: &self.idempotency_key,
            attempt: self.attempt,
            input: None,
            output: None,
            error: Json::Null,
        }
    }

    pub(super) fn stuck(&self, error: &RenderError, message: &str) -> Stuck {
        match &error.kind {
            RenderErrorKind::Needs(need) => self.stuck_on(need, Some(message)),
            RenderErrorKind::Failed | RenderErrorKind::Limit(_) => {
                Stuck::Broken(unrendered(message))
            }
        }
    }

    /// A payload is asked for once: one that does not help will not help the second time.
    pub(super) fn stuck_on(&self, need: &Need, message: Option<&str>) -> Stuck {
        match need {
            Need::Payload { reference } if !self.bench.payloads.contains_key(reference) => {
                Stuck::Needs(Want::Payload(Arc::clone(reference)))
            }
            Need::Payload { .. } => {
                let message = message.unwrap_or("data in the result store cannot be read");
                Stuck::Broken(unrendered(message))
            }
            Need::Secret { name } if self.side == Side::Worker && &**name != WHOLE => {
                Stuck::Needs(Want::Secret(Arc::clone(name)))
            }
            Need::Secret { name } => Stuck::Broken(TaskError::new(
                TaskErrorKind::Auth,
                format!("keychain entry `{name}` cannot be read here: name one entry, on a worker"),
            )),
        }
    }
}

/// Refuses a secret where the alias of a credential is to be: to ask for it would be to tell it.
fn check_alias(rendered: &Rendered, place: &[&str]) -> Result<(), Stuck> {
    let is_alias = |path: &&ValuePath| {
        let is_text = matches!(path.get(&rendered.value), Some(Json::Str(_)));
        let keys = path.0.iter().map(|segment| match segment {
            Segment::Key(key) => Some(&**key),
            Segment::Index(_) => None,
        });
        let alias = place.iter().map(|key| Some(*key));
        is_text && (keys.clone().eq(alias.clone()) || keys.eq(alias.chain([Some("key")])))
    };
    match rendered.secrets.iter().find(is_alias) {
        None => Ok(()),
        Some(_) => Err(Stuck::Broken(TaskError::new(
            TaskErrorKind::Auth,
            "'auth' holds a secret where it takes the name of a credential; give a map, such as \
             {type: bearer, token: \"{{ keychain.api.token }}\"}",
        ))),
    }
}

pub(super) fn unrendered(message: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Template, message)
}
