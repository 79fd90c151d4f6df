//! The log of a server as its operator reads it: a line of JSON for each thing that is told.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// What is logged on.
#[derive(Clone, Default)]
pub(super) struct Paper(Arc<Mutex<Vec<u8>>>);

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    /// Takes down what this thread logs, in the form that a server has, until the guard goes.
    pub(super) fn watch(&self) -> DefaultGuard {
        let paper = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(move || paper.clone())
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// All of it.
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines that say something.
    pub(super) fn saying(&self, message: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["message"] == message).collect()
    }
}
