//! Catches panics of a future, so that one command cannot bring down the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The message of a caught panic.
#[derive(Debug)]
pub(crate) struct CaughtPanic(pub(crate) String);

/// A future whose panics become errors.
pub(crate) struct CatchPanic<F>(Pin<Box<F>>);

/// Catches the panics of a future. Its state must not be used after a panic.
pub(crate) fn catch_panic<F: Future>(future: F) -> CatchPanic<F> {
    CatchPanic(Box::pin(future))
}

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, CaughtPanic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(CaughtPanic(panic_message(&*panic)))),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_error() {
        let completed = catch_panic(async { 7 }).await;
        assert_eq!(completed.unwrap(), 7);
        let panicked = catch_panic(async { panic!("no {}", "luck") }).await;
        assert_eq!(panicked.unwrap_err().0, "no luck");
    }
}
