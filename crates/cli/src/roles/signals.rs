//! What the user and the system tell a process.

use std::io;

use tokio_util::sync::CancellationToken;

use super::error::StartError;

/// Interrupts and requests to end, one after the other.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    count: usize,
}

impl Signals {
    /// Whether there was more than one: the user does not want to wait.
    pub(crate) fn are_impatient(&self) -> bool {
        self.count > 1
    }

    /// Listens from now on; without it, either ends the process.
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self, StartError> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(StartError::Process);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            count: 0,
        })
    }

    /// The next of them.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.count += 1;
        Ok(())
    }

    /// Listens from now on; without it, either ends the process.
    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self, StartError> {
        Ok(Self { count: 0 })
    }

    /// The next of them.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await?;
        self.count += 1;
        Ok(())
    }
}

/// A token that is cancelled at the first signal. At the second, `at_once` is.
pub(crate) fn stopped() -> Result<(CancellationToken, CancellationToken), StartError> {
    let mut signals = Signals::new()?;
    let (orderly, at_once) = (CancellationToken::new(), CancellationToken::new());
    let tokens = (orderly.clone(), at_once.clone());
    tokio::spawn(async move {
        for token in [orderly, at_once] {
            if signals.next().await.is_err() {
                return;
            }
            token.cancel();
        }
    });
    Ok(tokens)
}
