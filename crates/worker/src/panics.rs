//! Catching panics of a future, so that one command cannot take the others down.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that panicked, with what it said.
#[derive(Debug)]
pub(crate) struct Panicked(pub(crate) String);

/// A future whose panics come out as errors.
pub(crate) struct Caught<F>(Pin<Box<F>>);

/// Catches the panics of a future. What it works on must not be used after one.
pub(crate) fn caught<F: Future>(future: F) -> Caught<F> {
    Caught(Box::pin(future))
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(Panicked(said(&*panic)))),
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_comes_out_as_an_error() {
        let fine = caught(async { 7 }).await;
        assert_eq!(fine.unwrap(), 7);
        let broken = caught(async { panic!("no {}", "luck") }).await;
        assert_eq!(broken.unwrap_err().0, "no luck");
    }
}
