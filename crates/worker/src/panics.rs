//! Catches panics of a future, so that one command cannot bring down the others.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// Runs a future, and returns the message of its panic as an error. The state of the future must
/// not be used after a panic.
pub(crate) async fn catch_panic<F: Future>(future: F) -> Result<F::Output, String> {
    let completed = AssertUnwindSafe(Box::pin(future)).catch_unwind().await;
    completed.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("no reason given").to_owned()
    })
}

#[cfg(test)]
mod tests;
