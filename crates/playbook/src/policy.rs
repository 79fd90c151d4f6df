//! Policy of a task: what its rules say after an attempt, and how long a retry waits.
//!
//! Pure: the outcome of the attempt comes in with the scope, chance as a number, and the verdict goes
//! out. Whoever runs the task carries it out.

use noetl_types::time::Millis;
use noetl_types::{Json, JsonMap};

use crate::model::{
    Action, Backoff, Condition, JumpTarget, OnUnmatched, Retry, RuleTest, Set, Setting, Task,
    TaskPolicy,
};
use crate::template::{RenderError, Scope};

/// Executions of a task in all, where a retry does not say.
const DEFAULT_ATTEMPTS: u32 = 3;
/// The first delay, where a retry does not say.
const DEFAULT_DELAY: Millis = Millis::from_secs(1);
/// The longest delay, where a retry does not say.
const DEFAULT_MAX_DELAY: Millis = Millis::from_secs(300);

/// An attempt of a task that has just ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Whether it went well.
    pub is_ok: bool,
    /// Which attempt it was, from 1.
    pub number: u32,
    /// How long the other side asked to wait.
    pub retry_after: Option<Millis>,
    /// A number from 0 to below 1 for a delay by chance. It is recorded by its effect: the delay.
    pub dice: f64,
}

/// What happens after an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ruling<'p> {
    /// What happens next.
    pub next: Next<'p>,
    /// What the rule that was chosen writes, whatever happens next.
    pub set: Option<&'p Set>,
}

/// What happens next in the pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next<'p> {
    /// The next task.
    Continue,
    /// The same task again, after a delay.
    Retry {
        /// How long to wait.
        delay: Millis,
    },
    /// The task would run again but for its attempts, which are used up: it fails.
    Spent,
    /// Another task.
    Jump(&'p JumpTarget),
    /// The pipeline ends, successfully.
    Break,
    /// The pipeline ends, failed.
    Fail,
}

/// Why rules could not be worked out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// A template of a rule cannot be rendered.
    #[error("policy rule {rule}: {error}")]
    Template {
        /// The rule, from 0.
        rule: usize,
        /// Why.
        error: Box<RenderError>,
    },
    /// A template of a setting yields something that the setting does not take.
    #[error("policy rule {rule}: a {found} is no value for `{setting}`")]
    Setting {
        /// The rule, from 0.
        rule: usize,
        /// The setting.
        setting: &'static str,
        /// What was found.
        found: &'static str,
    },
}

/// What the rules of a task say after an attempt. The first one that matches decides.
pub fn rule<'p>(
    policy: Option<&'p TaskPolicy>,
    attempt: &Attempt,
    scope: &dyn Scope,
) -> Result<Ruling<'p>, PolicyError> {
    let Some(policy) = policy else {
        let next = if attempt.is_ok {
            Next::Continue
        } else {
            Next::Fail
        };
        return Ok(Ruling { next, set: None });
    };
    for (at, rule) in policy.rules.iter().enumerate() {
        let reader = Reader { rule: at, scope };
        if !reader.matches(&rule.test)? {
            continue;
        }
        let next = match &rule.then.action {
            Action::Continue => Next::Continue,
            Action::Jump(target) => Next::Jump(target),
            Action::Break => Next::Break,
            Action::Fail => Next::Fail,
            Action::Retry(retry) => reader.retry(retry, attempt)?,
        };
        let set = (!rule.then.set.is_empty()).then_some(&rule.then.set);
        return Ok(Ruling { next, set });
    }
    let next = match policy.on_unmatched {
        _ if attempt.is_ok => Next::Continue,
        OnUnmatched::Continue => Next::Continue,
        OnUnmatched::Fail => Next::Fail,
    };
    Ok(Ruling { next, set: None })
}

/// One rule in a scope.
struct Reader<'r> {
    rule: usize,
    scope: &'r dyn Scope,
}

impl Reader<'_> {
    fn matches(&self, test: &RuleTest) -> Result<bool, PolicyError> {
        match test {
            RuleTest::Else => Ok(true),
            RuleTest::When(when) => match &when.value {
                Condition::Fixed(value) => Ok(*value),
                Condition::Test(template) => template
                    .test(self.scope)
                    .map_err(|error| self.broken(error)),
            },
        }
    }

    fn retry<'p>(&self, retry: &Retry, attempt: &Attempt) -> Result<Next<'p>, PolicyError> {
        let attempts = match &retry.attempts {
            None => DEFAULT_ATTEMPTS,
            Some(attempts) => self.setting("attempts", &attempts.value, |value| {
                u32::try_from(value.as_u64()?).ok()
            })?,
        };
        if attempt.number >= attempts {
            return Ok(Next::Spent);
        }
        let duration = |value: &Json| Millis::from_json(value).ok();
        let first = match &retry.delay {
            None => None,
            Some(delay) => Some(self.setting("delay", delay, duration)?),
        };
        let longest = match &retry.max_delay {
            None => DEFAULT_MAX_DELAY,
            Some(delay) => self.setting("max_delay", delay, duration)?,
        };
        let delay = Delay {
            backoff: retry.backoff,
            first,
            longest,
            jitter: retry.jitter.then_some(attempt.dice),
            asked_for: attempt.retry_after,
        };
        Ok(Next::Retry {
            delay: delay.before(attempt.number),
        })
    }

    fn setting<T: Clone>(
        &self,
        name: &'static str,
        setting: &Setting<T>,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, PolicyError> {
        match setting {
            Setting::Fixed(value) => Ok(value.clone()),
            Setting::Template(template) => {
                let rendered = template.value.render(self.scope);
                let value = rendered.map_err(|error| self.broken(error))?.value;
                read(&value).ok_or(PolicyError::Setting {
                    rule: self.rule,
                    setting: name,
                    found: value.type_name(),
                })
            }
        }
    }

    fn broken(&self, error: RenderError) -> PolicyError {
        PolicyError::Template {
            rule: self.rule,
            error: Box::new(error),
        }
    }
}

/// How long retries wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delay {
    /// How the delay grows; without it, it stays the same where a first one is given, else there is
    /// none.
    pub backoff: Option<Backoff>,
    /// The first delay.
    pub first: Option<Millis>,
    /// The longest delay.
    pub longest: Millis,
    /// The part of the delay that is taken, where chance decides: from 0 to below 1.
    pub jitter: Option<f64>,
    /// What the other side asked for; it raises the delay.
    pub asked_for: Option<Millis>,
}

impl Delay {
    /// The delay before the retry with a number, from 1.
    pub fn before(&self, retry: u32) -> Millis {
        let first = self.first.unwrap_or(DEFAULT_DELAY);
        let backoff = self.backoff.unwrap_or(match self.first {
            Some(_) => Backoff::Fixed,
            None => Backoff::None,
        });
        let grown = match backoff {
            Backoff::None => Millis::ZERO,
            Backoff::Fixed => first,
            Backoff::Linear => first.saturating_mul(u64::from(retry)),
            Backoff::Exponential => {
                let doublings = retry.saturating_sub(1);
                first.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
            }
        };
        let bounded = grown.min(self.longest);
        let taken = self.jitter.map_or(bounded, |part| fraction(bounded, part));
        taken
            .max(self.asked_for.unwrap_or_default())
            .min(self.longest)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a part of a bounded delay, to the millisecond"
)]
fn fraction(delay: Millis, part: f64) -> Millis {
    Millis::from_ms((delay.as_ms() as f64 * part.clamp(0.0, 1.0)) as u64)
}

/// The task that a jump goes to, by its place in the pipeline; `None` where there is none.
pub fn jump_target(target: &JumpTarget, tasks: &[Task], from: usize) -> Option<usize> {
    match target {
        JumpTarget::Previous(_) => from.checked_sub(1),
        JumpTarget::Label(label) => tasks
            .iter()
            .position(|task| task.label.value == label.value),
    }
}

/// Adds a write to those that a command reports, by the key of its `set`. It takes the place of all
/// earlier ones at or below its path, so that the order of the rest does not matter.
pub fn add_write(writes: &mut JsonMap, key: &str, value: Json) {
    let below = format!("{key}.");
    writes.retain(|written, _| !written.starts_with(&*below));
    writes.insert(key.into(), value);
}

#[cfg(test)]
mod tests;
