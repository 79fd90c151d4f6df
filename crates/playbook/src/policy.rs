//! Evaluates the policy of a task after an attempt, and computes the delay of a retry.
//!
//! Pure functions: the outcome of the attempt and a random number are inputs, the decision is the
//! output. The caller that runs the task executes the decision.

use noetl_types::time::Millis;
use noetl_types::{Json, JsonMap};

use crate::model::{
    Backoff, Condition, JumpTarget, OnUnmatched, PolicyRule, RetryPolicy, RuleAction, RuleTest,
    SetClause, Task, TaskPolicy, ValueOrTemplate,
};
use crate::template::{RenderError, TemplateEnvironment};

/// Default maximum attempts of a task.
const DEFAULT_ATTEMPTS: u32 = 3;
/// Default delay before the first retry.
const DEFAULT_DELAY: Millis = Millis::from_secs(1);
/// Default maximum delay.
const DEFAULT_MAX_DELAY: Millis = Millis::from_secs(300);

/// Outcome of a task attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptOutcome {
    /// True if the attempt succeeded.
    pub is_ok: bool,
    /// Number of the attempt, starting at 1.
    pub number: u32,
    /// Delay requested by the remote side.
    pub retry_after: Option<Millis>,
    /// Random number in `[0, 1)` for the jitter of a delay. Only the resulting delay is recorded.
    pub random_fraction: f64,
}

/// Decision of a policy after an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyDecision<'p> {
    /// Next action of the pipeline.
    pub action: NextAction<'p>,
    /// Variables that the matching rule writes, regardless of the action.
    pub set: Option<&'p SetClause>,
    /// The matching rule.
    pub rule: Option<&'p PolicyRule>,
}

/// Next action of a pipeline after an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextAction<'p> {
    /// Runs the next task.
    Continue,
    /// Runs the same task again after a delay.
    Retry {
        /// Time to wait.
        delay: Millis,
    },
    /// Fails the task, because a retry was requested but no attempts remain.
    AttemptsExhausted,
    /// Runs another task.
    Jump(&'p JumpTarget),
    /// Ends the pipeline successfully.
    Break,
    /// Ends the pipeline as failed.
    Fail,
}

/// An error while evaluating a policy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// A template of a rule cannot be rendered.
    #[error("policy rule {rule}: {error}")]
    Template {
        /// Index of the rule, starting at 0.
        rule: usize,
        /// Cause of the error.
        error: Box<RenderError>,
    },
    /// A template renders a value that is invalid for its setting.
    #[error("policy rule {rule}: `{setting}` cannot be a {found}")]
    Setting {
        /// Index of the rule, starting at 0.
        rule: usize,
        /// Name of the setting.
        setting: &'static str,
        /// Type of the rendered value.
        found: &'static str,
    },
}

/// Evaluates the rules of a task after an attempt. The first matching rule decides.
pub fn evaluate_policy<'p>(
    policy: Option<&'p TaskPolicy>,
    attempt: &AttemptOutcome,
    environment: &dyn TemplateEnvironment,
) -> Result<PolicyDecision<'p>, PolicyError> {
    let Some(policy) = policy else {
        let action = if attempt.is_ok { NextAction::Continue } else { NextAction::Fail };
        return Ok(PolicyDecision { action, set: None, rule: None });
    };
    for (index, rule) in policy.rules.iter().enumerate() {
        let evaluator = RuleEvaluator { rule_index: index, environment };
        if !evaluator.is_match(&rule.test)? {
            continue;
        }
        let action = match &rule.then.action {
            RuleAction::Continue => NextAction::Continue,
            RuleAction::Jump(target) => NextAction::Jump(target),
            RuleAction::Break => NextAction::Break,
            RuleAction::Fail => NextAction::Fail,
            RuleAction::Retry(retry) => evaluator.retry_action(retry, attempt)?,
        };
        let set = (!rule.then.set.is_empty()).then_some(&rule.then.set);
        return Ok(PolicyDecision { action, set, rule: Some(rule) });
    }
    let action = match policy.on_unmatched {
        _ if attempt.is_ok => NextAction::Continue,
        OnUnmatched::Continue => NextAction::Continue,
        OnUnmatched::Fail => NextAction::Fail,
    };
    Ok(PolicyDecision { action, set: None, rule: None })
}

/// Evaluates one rule in a template environment.
struct RuleEvaluator<'r> {
    rule_index: usize,
    environment: &'r dyn TemplateEnvironment,
}

impl RuleEvaluator<'_> {
    fn is_match(&self, test: &RuleTest) -> Result<bool, PolicyError> {
        match test {
            RuleTest::Else => Ok(true),
            RuleTest::When(when) => match &when.value {
                Condition::Fixed(value) => Ok(*value),
                Condition::Test(template) => template
                    .render_condition(self.environment)
                    .map_err(|error| self.template_error(error)),
            },
        }
    }

    fn retry_action<'p>(
        &self,
        retry: &RetryPolicy,
        attempt: &AttemptOutcome,
    ) -> Result<NextAction<'p>, PolicyError> {
        let attempts = match &retry.attempts {
            None => DEFAULT_ATTEMPTS,
            Some(attempts) => self.resolve_setting("attempts", &attempts.value, |value| {
                u32::try_from(value.as_u64()?).ok()
            })?,
        };
        if attempt.number >= attempts {
            return Ok(NextAction::AttemptsExhausted);
        }
        let duration = |value: &Json| Millis::from_json(value).ok();
        let initial = match &retry.delay {
            None => None,
            Some(delay) => Some(self.resolve_setting("delay", delay, duration)?),
        };
        let max = match &retry.max_delay {
            None => DEFAULT_MAX_DELAY,
            Some(delay) => self.resolve_setting("max_delay", delay, duration)?,
        };
        let delay = RetryDelay {
            backoff: retry.backoff,
            initial,
            max,
            jitter: retry.jitter.then_some(attempt.random_fraction),
            retry_after: attempt.retry_after,
        };
        Ok(NextAction::Retry { delay: delay.before_retry(attempt.number) })
    }

    fn resolve_setting<T: Clone>(
        &self,
        name: &'static str,
        setting: &ValueOrTemplate<T>,
        convert: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, PolicyError> {
        match setting {
            ValueOrTemplate::Fixed(value) => Ok(value.clone()),
            ValueOrTemplate::Template(template) => {
                let rendered = template.value.render(self.environment);
                let value = rendered.map_err(|error| self.template_error(error))?.value;
                convert(&value).ok_or(PolicyError::Setting {
                    rule: self.rule_index,
                    setting: name,
                    found: value.type_name(),
                })
            }
        }
    }

    fn template_error(&self, error: RenderError) -> PolicyError {
        PolicyError::Template { rule: self.rule_index, error: Box::new(error) }
    }
}

/// Delay settings of retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryDelay {
    /// Growth of the delay. If absent, the delay is constant if `initial` is set, else zero.
    pub backoff: Option<Backoff>,
    /// Delay before the first retry.
    pub initial: Option<Millis>,
    /// Maximum delay.
    pub max: Millis,
    /// Fraction of the delay to use, in `[0, 1)`. `None` disables jitter.
    pub jitter: Option<f64>,
    /// Minimum delay requested by the remote side, limited by the maximum delay.
    pub retry_after: Option<Millis>,
}

impl RetryDelay {
    /// Returns the delay before a retry. The first retry is 1.
    pub fn before_retry(&self, retry: u32) -> Millis {
        let initial = self.initial.unwrap_or(DEFAULT_DELAY);
        let backoff = self.backoff.unwrap_or(match self.initial {
            Some(_) => Backoff::Fixed,
            None => Backoff::None,
        });
        let grown = match backoff {
            Backoff::None => Millis::ZERO,
            Backoff::Fixed => initial,
            Backoff::Linear => initial.saturating_mul(u64::from(retry)),
            Backoff::Exponential => {
                let doublings = retry.saturating_sub(1);
                initial.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
            }
        };
        let bounded = grown.min(self.max);
        let jittered = self.jitter.map_or(bounded, |fraction| scale_delay(bounded, fraction));
        jittered.max(self.retry_after.unwrap_or_default()).min(self.max)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a fraction of a bounded delay, in milliseconds"
)]
fn scale_delay(delay: Millis, fraction: f64) -> Millis {
    Millis::from_ms((delay.as_ms() as f64 * fraction.clamp(0.0, 1.0)) as u64)
}

/// Returns the index of the task that a jump leads to, or `None` if there is no such task.
pub fn jump_target(target: &JumpTarget, tasks: &[Task], from: usize) -> Option<usize> {
    match target {
        JumpTarget::Previous(_) => from.checked_sub(1),
        JumpTarget::Label(label) => tasks.iter().position(|task| task.label.value == label.value),
    }
}

/// Adds a write to the writes that a command reports, under its `set` key. It replaces all earlier
/// writes at or below its path, so that the order of the remaining writes does not matter.
pub fn add_write(writes: &mut JsonMap, key: &str, value: Json) {
    let prefix = format!("{key}.");
    writes.retain(|key, _| !key.starts_with(&*prefix));
    writes.insert(key.into(), value);
}

#[cfg(test)]
mod tests;
