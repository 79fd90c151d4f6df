//! Signals that stop a process.

use std::io;

use tokio_util::sync::CancellationToken;

use super::error::StartError;

/// Stream of interrupt and terminate signals.
#[derive(Debug)]
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    count: usize,
}

impl StopSignals {
    /// True if more than one signal was received, so the user does not want to wait.
    pub(crate) fn is_repeated(&self) -> bool {
        self.count > 1
    }

    /// Starts listening. Without this, each signal ends the process.
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

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(crate) async fn next_signal(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.count += 1;
        Ok(())
    }

    /// Starts listening. Without this, each signal ends the process.
    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self, StartError> {
        Ok(Self { count: 0 })
    }

    /// Waits for the next signal.
    #[cfg(not(unix))]
    pub(crate) async fn next_signal(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await?;
        self.count += 1;
        Ok(())
    }
}

/// Returns two tokens: the first signal cancels the first, the second signal cancels the second.
pub(crate) fn shutdown_tokens() -> Result<(CancellationToken, CancellationToken), StartError> {
    let mut signals = StopSignals::new()?;
    let (graceful, immediate) = (CancellationToken::new(), CancellationToken::new());
    let tokens = (graceful.clone(), immediate.clone());
    tokio::spawn(async move {
        for token in [graceful, immediate] {
            if signals.next_signal().await.is_err() {
                return;
            }
            token.cancel();
        }
    });
    Ok(tokens)
}
