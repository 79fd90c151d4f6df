//! Components of a running system, and their assembly in one or several processes.
//!
//! Owns opening what the configuration names and closing it again. Must not print, or decide what a
//! command does with the components.

mod client;
mod error;
mod keys;
mod listeners;
mod lock_file;
mod log;
mod orphans;
mod read_only;
mod runtime;
mod signals;
mod store;
mod target;
mod threads;
mod watch;
mod worker;

pub(crate) use client::{client_settings, server_client};
pub(crate) use error::StartError;
pub(crate) use keys::KeyError;
pub(crate) use listeners::{bind_listeners, bind_worker_metrics, http_settings};
pub(crate) use lock_file::ServerLockFile;
pub(crate) use log::start_logging;
pub(crate) use orphans::{OrphanScope, cancel_orphans};
pub(crate) use runtime::{ServerEndpoint, open_read_only_runtime, open_runtime};
pub(crate) use signals::{StopSignals, shutdown_tokens};
pub(crate) use store::{OpenResult, StoreLocation};
pub(crate) use target::{Target, TargetError, exit_for_api_error, local_pool_name};
pub(crate) use threads::{RuntimeBuildError, build_tokio_runtime};
pub(crate) use watch::ExecutionWatch;
pub(crate) use worker::{
    CodeTrust, PlatformToolSettings, WorkerPlan, build_toolbox, sandbox_settings,
};

use std::error::Error;

/// Formats an error and its sources in one line.
pub(crate) fn error_chain(error: &dyn Error) -> String {
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
