//! Routes, one file per resource.
//!
//! A file declares its routes at the top: path, access rule, handler, and the maximum body size and
//! audit policy where they differ from the default. Its handlers follow. A handler parses its
//! request, calls a service once, and writes the response. Those without anything else to do are
//! declared with `handlers!`.

mod audit;
mod catalog;
mod classic;
mod commands;
mod credentials;
mod event_stream;
mod executions;
mod health;
mod internal;
mod keychain;
mod live_events;
mod logs;
mod openapi;
mod outbox;
mod replay;
mod results;
mod sessions;
mod signals;
mod system;
mod table;
mod tokens;
mod unsupported;
mod vars;
mod workers;

use axum::Router;
use noetl_types::ByteSize;
use tokio_util::sync::CancellationToken;

use super::listener_kind::ListenerKind;
use super::middleware::access::{RouteAccess, Scope};
use super::request_context::AppState;
use super::settings::HttpSettings;
use crate::services::ControlPlane;

pub(super) use openapi::DOCUMENT as OPENAPI_DOCUMENT;
use table::handlers;
pub(in crate::http) use table::{Route, delete, get, post, put, route_requests};

/// Maximum body size of batch requests, and of requests with a playbook document.
const MAX_BATCH_BODY_SIZE: ByteSize = ByteSize::from_mib(8);
/// Maximum body size of a report, which may contain a result of the maximum size.
const MAX_REPORT_BODY_SIZE: ByteSize = ByteSize::from_mib(72);
/// Maximum body of a call with output of tasks. JSON may escape each of its characters.
const MAX_OUTPUT_BODY_SIZE: ByteSize = ByteSize::from_mib(24);

const EXEC_READ: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRead]);
const EXEC_RUN: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRun]);
const CATALOG_READ: RouteAccess = RouteAccess::AnyOf(&[Scope::CatalogRead]);
const CATALOG_WRITE: RouteAccess = RouteAccess::AnyOf(&[Scope::CatalogWrite]);
const WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::Worker]);
const EXEC_READ_OR_WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRead, Scope::Worker]);
/// Users and workers read credentials.
const CRED_USE_OR_WORKER: RouteAccess =
    RouteAccess::AnyOf(&[Scope::CredUse, Scope::CredAdmin, Scope::Worker]);
/// Workers read sealed credentials and cache resolved ones. Credential admins may do both too.
const CRED_ADMIN_OR_WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::CredAdmin, Scope::Worker]);
const ADMIN: RouteAccess = RouteAccess::AnyOf(&[Scope::Admin]);
const PLATFORM: RouteAccess = RouteAccess::Internal(Scope::Admin);

/// Builds the router of a listener.
pub(super) fn build_router(
    services: ControlPlane,
    settings: &HttpSettings,
    listener_kind: ListenerKind,
    shutdown: CancellationToken,
) -> Router {
    let app = AppState::new(services, settings, shutdown);
    route_requests(all_routes(), listener_kind, settings, app)
}

/// Declarations of all routes.
pub(super) fn all_routes() -> Vec<Route> {
    let resources = [
        audit::routes(),
        catalog::routes(),
        classic::routes(),
        commands::routes(),
        credentials::routes(),
        event_stream::routes(),
        executions::routes(),
        health::routes(),
        internal::routes(),
        keychain::routes(),
        live_events::routes(),
        logs::routes(),
        openapi::routes(),
        outbox::routes(),
        replay::routes(),
        results::routes(),
        sessions::routes(),
        signals::routes(),
        system::routes(),
        tokens::routes(),
        unsupported::routes(),
        vars::routes(),
        workers::routes(),
    ];
    resources.into_iter().flatten().collect()
}
