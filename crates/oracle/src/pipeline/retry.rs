//! How often a task is tried again, and how long it rests before.

use noetl_playbook::model::{Backoff, Retry, Setting};
use noetl_playbook::template::{RenderError, Scope};
use noetl_types::{Json, Millis};

/// How often a task is executed by a `retry` that does not say.
const DEFAULT_ATTEMPTS: u64 = 3;
/// The delay of a `retry` that has a backoff and does not say.
const DEFAULT_DELAY: u64 = 1_000;
/// The bound on the delay of a `retry` that does not say.
const DEFAULT_MAX_DELAY: u64 = 300_000;

/// Executions in all, the first included.
pub(super) fn attempts(retry: &Retry, scope: &dyn Scope) -> Result<u64, RenderError> {
    Ok(
        match retry.attempts.as_ref().map(|attempts| &attempts.value) {
            None => DEFAULT_ATTEMPTS,
            Some(Setting::Fixed(attempts)) => u64::from(*attempts),
            Some(Setting::Template(template)) => template
                .render(scope)?
                .value
                .as_u64()
                .unwrap_or(DEFAULT_ATTEMPTS),
        },
    )
}

/// The milliseconds before the next attempt, after so many retries with that one counted.
///
/// Jitter belongs to tests of its own: here a delay is taken whole.
pub(super) fn delay(retry: &Retry, retries: u64, scope: &dyn Scope) -> Result<u64, RenderError> {
    let given = millis(retry.delay.as_ref(), scope)?;
    let base = given.unwrap_or(DEFAULT_DELAY);
    let backoff = retry.backoff.unwrap_or(match given {
        Some(_) => Backoff::Fixed,
        None => Backoff::None,
    });
    let delay = match backoff {
        Backoff::None => 0,
        Backoff::Fixed => base,
        Backoff::Linear => base.saturating_mul(retries),
        Backoff::Exponential => base.saturating_mul(1 << (retries - 1).min(40)),
    };
    let most = millis(retry.max_delay.as_ref(), scope)?.unwrap_or(DEFAULT_MAX_DELAY);
    Ok(delay.min(most))
}

fn millis(
    setting: Option<&Setting<Millis>>,
    scope: &dyn Scope,
) -> Result<Option<u64>, RenderError> {
    Ok(match setting {
        None => None,
        Some(Setting::Fixed(millis)) => Some(millis.as_ms()),
        Some(Setting::Template(template)) => read(&template.render(scope)?.value),
    })
}

/// A duration that a template gave: a number of seconds, or a text with a unit.
fn read(value: &Json) -> Option<u64> {
    Millis::from_json(value).ok().map(Millis::as_ms)
}
