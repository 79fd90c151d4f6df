//! Number of attempts of a task, and the delay between them.

use noetl_playbook::model::{Backoff, RetryPolicy, ValueOrTemplate};
use noetl_playbook::template::{RenderError, TemplateEnvironment};
use noetl_types::{Json, Millis};

/// Default number of executions with `retry`.
const DEFAULT_ATTEMPTS: u64 = 3;
/// Default delay of a `retry` that has a backoff, in milliseconds.
const DEFAULT_DELAY_MS: u64 = 1_000;
/// Default maximum delay of a `retry`, in milliseconds.
const DEFAULT_MAX_DELAY_MS: u64 = 300_000;

/// Returns the total number of executions, including the first.
pub(super) fn max_attempts(
    retry: &RetryPolicy,
    environment: &dyn TemplateEnvironment,
) -> Result<u64, RenderError> {
    Ok(match retry.attempts.as_ref().map(|attempts| &attempts.value) {
        None => DEFAULT_ATTEMPTS,
        Some(ValueOrTemplate::Fixed(attempts)) => u64::from(*attempts),
        Some(ValueOrTemplate::Template(template)) => {
            template.render(environment)?.value.as_u64().unwrap_or(DEFAULT_ATTEMPTS)
        }
    })
}

/// Returns the milliseconds before the next attempt. `retries` includes that attempt.
///
/// Jitter has separate tests: here the full delay is used.
pub(super) fn retry_delay_ms(
    retry: &RetryPolicy,
    retries: u64,
    environment: &dyn TemplateEnvironment,
) -> Result<u64, RenderError> {
    let configured = render_millis(retry.delay.as_ref(), environment)?;
    let base = configured.unwrap_or(DEFAULT_DELAY_MS);
    let backoff = retry.backoff.unwrap_or(match configured {
        Some(_) => Backoff::Fixed,
        None => Backoff::None,
    });
    let delay = match backoff {
        Backoff::None => 0,
        Backoff::Fixed => base,
        Backoff::Linear => base.saturating_mul(retries),
        Backoff::Exponential => base.saturating_mul(1 << (retries - 1).min(40)),
    };
    let max_delay =
        render_millis(retry.max_delay.as_ref(), environment)?.unwrap_or(DEFAULT_MAX_DELAY_MS);
    Ok(delay.min(max_delay))
}

fn render_millis(
    setting: Option<&ValueOrTemplate<Millis>>,
    environment: &dyn TemplateEnvironment,
) -> Result<Option<u64>, RenderError> {
    Ok(match setting {
        None => None,
        Some(ValueOrTemplate::Fixed(millis)) => Some(millis.as_ms()),
        Some(ValueOrTemplate::Template(template)) => {
            parse_millis(&template.render(environment)?.value)
        }
    })
}

/// Parses a rendered duration: a number of seconds, or a text with a unit.
fn parse_millis(value: &Json) -> Option<u64> {
    Millis::from_json(value).ok().map(Millis::as_ms)
}
