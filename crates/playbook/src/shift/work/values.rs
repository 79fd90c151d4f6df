//! Values that a work renders, and what it lacks when it cannot.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::super::scope::{TaskScope, WHOLE};
use super::{Side, Stuck, Want, Work};
use crate::model::{Fields, Set, SetTarget};
use crate::template::{Dynamic, Need, RenderError, RenderErrorKind};

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
        match value.render(scope) {
            Ok(rendered) => {
                // What is made from a secret is one, though nobody would know it by its value.
                for secret in rendered.secret_values() {
                    self.hidden.add(secret);
                }
                Ok(rendered.value)
            }
            Err(error) => Err(self.stuck(&error, &error.to_string())),
        }
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

pub(super) fn unrendered(message: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Template, message)
}
