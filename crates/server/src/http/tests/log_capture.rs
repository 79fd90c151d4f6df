//! Captures the server log as JSON lines, in the format that operators see.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// Buffer that receives log lines.
#[derive(Clone, Default)]
pub(super) struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogCapture {
    /// Captures the log of this thread in the server's format until the guard is dropped.
    pub(super) fn start_capture(&self) -> DefaultGuard {
        let logs = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(move || logs.clone())
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Log entries with this message.
    pub(super) fn entries_with_message(&self, message: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["message"] == message).collect()
    }
}
