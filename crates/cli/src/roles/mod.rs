//! The parts of a running system, and how they are put together in one process or in several.
//!
//! Owns opening what the configuration names and closing it again. Must not: print, or decide what
//! a command does with it.

mod beacon;
mod client;
mod error;
mod host;
mod keys;
mod listen;
mod log;
mod look;
mod orphans;
mod runtime;
mod signals;
mod store;
mod threads;
mod watch;
mod worker;

pub(crate) use beacon::Beacon;
pub(crate) use client::{client, client_settings};
pub(crate) use error::StartError;
pub(crate) use host::{Host, HostError, exit_of_refusal, own_pool};
pub(crate) use keys::KeyError;
pub(crate) use listen::{http_settings, listen, listen_for_scrapes};
pub(crate) use log::start_logging;
pub(crate) use orphans::{Gone, bury};
pub(crate) use runtime::{Facade, open_runtime, reading_runtime};
pub(crate) use signals::{Signals, stopped};
pub(crate) use store::{Opened, Place};
pub(crate) use threads::{Refused as ThreadsRefused, threads};
pub(crate) use watch::Watch;
pub(crate) use worker::{Code, OfPlatform, WorkerPlan, sandbox, toolbox};

use std::error::Error;

/// An error and all that led to it, in one line.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
