//! The table of routes: each with who may call it, how large its body may be, and what it leaves behind.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodFilter;
use noetl_api::paths;
use noetl_types::{ByteSize, SecretOperation};
use tokio_util::sync::CancellationToken;

use super::access::{Access, Scope};
use super::acting::App;
use super::handlers::{
    audit, catalog, classic, commands, credentials, execute, executions, health, internal,
    keychain, openapi, outbox, replay, results, signals, stream, streams, system, tokens, vars,
    workers,
};
use super::part::Part;
#[cfg(test)]
pub(super) use super::routing::Declared;
use super::routing::Routes;
use super::settings::HttpSettings;
use crate::runtime::Runtime;

/// Documents are larger than other bodies.
const MAX_CATALOG_BODY: ByteSize = ByteSize::from_mib(8);
/// So are bodies with many things in them.
const MAX_BATCH_BODY: ByteSize = ByteSize::from_mib(8);
/// A report may bring the largest result there is, and the words around it.
const MAX_REPORT_BODY: ByteSize = ByteSize::from_mib(72);

const EXEC_READ: Access = Access::AnyOf(&[Scope::ExecRead]);
const EXEC_RUN: Access = Access::AnyOf(&[Scope::ExecRun]);
const EXEC_APPROVE: Access = Access::AnyOf(&[Scope::ExecApprove]);
const CATALOG_READ: Access = Access::AnyOf(&[Scope::CatalogRead]);
const CATALOG_WRITE: Access = Access::AnyOf(&[Scope::CatalogWrite]);
const SUB_WRITE: Access = Access::AnyOf(&[Scope::SubWrite]);
const WORKER: Access = Access::AnyOf(&[Scope::Worker]);
const METRICS_READ: Access = Access::AnyOf(&[Scope::MetricsRead]);
/// Runs that other runs start, as their workers ask for them.
const RUN_OR_WORK: Access = Access::AnyOf(&[Scope::ExecRun, Scope::Worker]);
/// Workers fetch the definition of what they run.
const CATALOG_READ_OR_WORK: Access = Access::AnyOf(&[Scope::CatalogRead, Scope::Worker]);
const CRED_USE: Access = Access::AnyOf(&[Scope::CredUse]);
const CRED_ADMIN: Access = Access::AnyOf(&[Scope::CredAdmin]);
/// Workers fetch the credentials of what they run.
const CRED_USE_OR_WORK: Access = Access::AnyOf(&[Scope::CredUse, Scope::CredAdmin, Scope::Worker]);
/// Workers fetch them sealed and keep what they resolved, and so may who has them anyway.
const CRED_ADMIN_OR_WORK: Access = Access::AnyOf(&[Scope::CredAdmin, Scope::Worker]);
const ADMIN: Access = Access::AnyOf(&[Scope::Admin]);
const READ_OR_WORK: Access = Access::AnyOf(&[Scope::ExecRead, Scope::Worker]);

const OUTBOX: Access = Access::Internal(Scope::InternalOutbox);
const PROJECT: Access = Access::Internal(Scope::InternalProject);
const RETENTION: Access = Access::Internal(Scope::InternalRetention);
const PLATFORM: Access = Access::Internal(Scope::Admin);
const WALLET: Access = Access::Internal(Scope::CredAdmin);

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const DELETE: MethodFilter = MethodFilter::DELETE;
const PATCH: MethodFilter = MethodFilter::PATCH;

/// The routes of a listener.
pub(super) fn router(
    runtime: Runtime,
    settings: &HttpSettings,
    part: Part,
    shutdown: CancellationToken,
) -> Router {
    let routes = Routes::new(
        settings.max_body,
        settings.internal_token,
        Arc::clone(runtime.metrics()),
    );
    all(routes.only(part)).finish(App::new(runtime, settings, shutdown))
}

/// Adds every route.
fn all(routes: Routes) -> Routes {
    let routes = health_routes(routes);
    let routes = user_routes(routes);
    let routes = steering_routes(routes);
    let routes = catalog_routes(routes);
    let routes = system_routes(routes);
    let routes = stream_routes(routes);
    let routes = worker_routes(routes);
    let routes = classic_routes(routes);
    let routes = internal_routes(routes);
    let routes = platform_routes(routes);
    let routes = database_routes(routes);
    let routes = later_routes(routes);
    let routes = secret_routes(routes);
    identity_routes(routes)
}

/// Every route, with what it declares.
#[cfg(test)]
pub(super) fn table() -> Vec<Declared> {
    all(Routes::new(ByteSize::from_mib(1), None, Arc::default())).into_table()
}

/// Whatever touches a secret leaves a trail, reading included.
fn secret_routes(routes: Routes) -> Routes {
    use SecretOperation::{Delete, Look, Rotate, Seal, Set};
    let routes = routes
        .add(CRED_USE, GET, paths::CREDENTIALS, credentials::list)
        .on_secret(Set)
        .add(CRED_ADMIN, POST, paths::CREDENTIALS, credentials::put)
        // What is looked at, read or lent is one route; its handler tells them apart.
        .on_secret(Look)
        .of_command()
        .add(CRED_USE_OR_WORK, GET, paths::CREDENTIAL, credentials::one)
        .of_others()
        .on_secret(Seal)
        .add(
            CRED_ADMIN_OR_WORK,
            GET,
            paths::CREDENTIAL_SEALED,
            credentials::sealed,
        )
        .on_secret(Delete)
        .add(CRED_ADMIN, DELETE, paths::CREDENTIAL, credentials::delete)
        .on_secret(Rotate)
        .add(CRED_ADMIN, POST, paths::ROTATE_KEYS, credentials::rotate)
        .add(WALLET, POST, paths::WALLET_ROTATE, credentials::rotate_all)
        .unaudited()
        .add(
            WALLET,
            GET,
            paths::WALLET_KEY_STATUS,
            credentials::key_status,
        )
        .add(PLATFORM, GET, paths::SECRET_AUDIT, audit::secrets);
    keychain_routes(routes)
}

fn keychain_routes(routes: Routes) -> Routes {
    use SecretOperation::{KeychainDelete, KeychainGet, KeychainPut};
    routes
        .on_secret(KeychainGet)
        .add(CRED_USE_OR_WORK, GET, paths::KEYCHAIN, keychain::one)
        .on_secret(KeychainPut)
        .add(CRED_ADMIN_OR_WORK, POST, paths::KEYCHAIN, keychain::put)
        .on_secret(KeychainDelete)
        .add(
            CRED_ADMIN_OR_WORK,
            DELETE,
            paths::KEYCHAIN,
            keychain::delete,
        )
        .unaudited()
        .add(CRED_USE_OR_WORK, GET, paths::KEYCHAIN_OF, keychain::list)
}

fn identity_routes(routes: Routes) -> Routes {
    routes
        .add(ADMIN, GET, paths::TOKENS, tokens::list)
        .add(ADMIN, GET, paths::AUDIT, audit::list)
        .audited()
        .add(ADMIN, POST, paths::TOKENS, tokens::create)
        .add(ADMIN, DELETE, paths::TOKEN, tokens::revoke)
        .unaudited()
}

fn health_routes(routes: Routes) -> Routes {
    routes
        .add(Access::Open, GET, paths::LIVEZ, health::alive)
        .add(Access::Open, GET, paths::HEALTH, health::alive)
        .add(Access::Open, GET, paths::READYZ, health::ready)
        .add(METRICS_READ, GET, paths::METRICS, health::metrics)
}

fn user_routes(routes: Routes) -> Routes {
    routes
        .add(RUN_OR_WORK, POST, paths::EXECUTE, execute::execute)
        .add(EXEC_READ, GET, paths::EXECUTIONS, executions::list)
        .add(EXEC_READ, GET, paths::EXECUTION, executions::detail)
        .add(EXEC_READ, GET, paths::EXECUTION_STATUS, executions::status)
        .add(EXEC_READ, GET, paths::EXECUTION_EVENTS, executions::events)
        .add(
            EXEC_READ,
            GET,
            paths::EXECUTION_EVENTS_STREAM,
            streams::execution,
        )
        .add(EXEC_READ, GET, paths::EVENTS_STREAM, streams::all)
        .add(EXEC_READ, GET, paths::REPLAY_STATE, replay::state)
        .add(
            EXEC_READ,
            GET,
            paths::EXECUTION_EXPLAIN,
            executions::explain,
        )
        .add(
            EXEC_READ,
            POST,
            paths::EXECUTION_ANALYZE,
            executions::analyze,
        )
        .audited()
        .add(EXEC_RUN, POST, paths::EXECUTION_CANCEL, execute::cancel)
        .unaudited()
        .of_command()
        .add(READ_OR_WORK, GET, paths::RESULT_RESOLVE, results::resolve)
        .of_others()
        .add(EXEC_READ, GET, paths::POOLS, workers::pools)
        .audited()
        .add(EXEC_RUN, POST, paths::POOL_DRAIN, workers::drain)
        .unaudited()
}

fn steering_routes(routes: Routes) -> Routes {
    routes
        .with_body(MAX_BATCH_BODY)
        .add(EXEC_RUN, POST, paths::EXECUTE_BATCH, execute::batch)
        .with_usual_body()
        .audited()
        .add(EXEC_RUN, POST, paths::EXECUTION_RERUN, execute::rerun)
        .add(EXEC_RUN, POST, paths::EXECUTION_STOP, execute::cancel)
        .add(EXEC_RUN, POST, paths::EXECUTION_PAUSE, execute::pause)
        .add(EXEC_RUN, POST, paths::EXECUTION_RESUME, execute::resume)
        .add(EXEC_RUN, POST, paths::EXECUTION_SIGNAL, signals::signal)
        .add(EXEC_RUN, POST, paths::SIGNALS, signals::broadcast)
        .add(
            EXEC_APPROVE,
            POST,
            paths::EXECUTION_APPROVE,
            signals::approve,
        )
        .add(ADMIN, POST, paths::EXECUTION_FINALIZE, execute::finalize)
        .add(ADMIN, POST, paths::EXECUTIONS_CLEANUP, execute::clean_up)
        .unaudited()
        .add(EXEC_READ, GET, paths::APPROVALS, signals::approvals)
        .add(
            READ_OR_WORK,
            GET,
            paths::EXECUTION_CANCELLATION,
            executions::cancellation,
        )
}

fn catalog_routes(routes: Routes) -> Routes {
    routes
        .with_body(MAX_CATALOG_BODY)
        .audited()
        .add(
            CATALOG_WRITE,
            POST,
            paths::CATALOG_REGISTER,
            catalog::register,
        )
        .add(
            CATALOG_WRITE,
            POST,
            paths::CATALOG_REGISTER_BATCH,
            catalog::register_batch,
        )
        .add(
            CATALOG_WRITE,
            PUT,
            paths::CATALOG_CONTENT,
            catalog::put_content,
        )
        .add(
            CATALOG_WRITE,
            PUT,
            paths::CATALOG_PLAYBOOK,
            catalog::register,
        )
        .unaudited()
        .add(
            CATALOG_READ,
            POST,
            paths::CATALOG_VALIDATE,
            catalog::validate,
        )
        .with_usual_body()
        .add(CATALOG_READ, GET, paths::CATALOG_CONTENT, catalog::content)
        .add(CATALOG_READ, POST, paths::CATALOG_LIST, catalog::list)
        .add(
            CATALOG_READ,
            GET,
            paths::CATALOG_LIST_KIND,
            catalog::list_kind,
        )
        .add(CATALOG_READ, POST, paths::CATALOG_AGENTS, catalog::agents)
        .add(
            CATALOG_READ_OR_WORK,
            POST,
            paths::CATALOG_RESOURCE,
            catalog::resource,
        )
        .audited()
        .add(
            CATALOG_WRITE,
            DELETE,
            paths::CATALOG_PLAYBOOK_OF,
            catalog::archive,
        )
        .add(
            CATALOG_WRITE,
            POST,
            paths::CATALOG_RESTORE,
            catalog::restore,
        )
        .unaudited()
        .add(CATALOG_READ, GET, paths::CATALOG_OF, catalog::told_of)
}

fn system_routes(routes: Routes) -> Routes {
    let any = GET.or(POST);
    routes
        .add(EXEC_READ, GET, paths::DASHBOARD_STATS, system::stats)
        .add(EXEC_READ, GET, paths::DASHBOARD_WIDGETS, system::widgets)
        .add(EXEC_READ, GET, paths::SHARD_INFO, system::shard_info)
        .add(Access::Identity, GET, paths::WHOAMI, system::whoami)
        .add(Access::Identity, GET, paths::OPENAPI, openapi::document)
        // It is the same for everybody and holds nothing of anybody; a browser has no token to show.
        .add(Access::Open, GET, paths::DOCS, openapi::page)
        .add(Access::Identity, GET, paths::SCHEMA, system::schema)
        .add(Access::Identity, GET, paths::API_HEALTH, system::health)
        .add(ADMIN, GET, paths::STATUS, system::status)
        .add(ADMIN, GET, paths::POOL_STATUS, system::status)
        .add(ADMIN, GET, paths::THREADS, system::not_supported)
        .add(ADMIN, any, paths::PROFILER, system::not_supported)
        .add(
            EXEC_READ,
            POST,
            paths::EXECUTION_ANALYZE_AI,
            system::not_supported,
        )
        .add(
            CATALOG_READ,
            POST,
            paths::CATALOG_EXPLAIN_AI,
            system::not_supported,
        )
        .add(
            CATALOG_READ,
            POST,
            paths::CATALOG_GENERATE_AI,
            system::not_supported,
        )
}

fn stream_routes(routes: Routes) -> Routes {
    routes
        .add(EXEC_READ, GET, paths::STREAM_STATUS, stream::status)
        .add(EXEC_READ, GET, paths::STREAM_FEED, stream::feed)
        .add(EXEC_READ, GET, paths::STREAM_EVENT, stream::event)
        .add(PLATFORM, GET, paths::STREAM_STANDING, stream::status)
        .audited()
        .add(PLATFORM, POST, paths::STREAM_REBUILD, stream::rebuild)
        .unaudited()
}

fn classic_routes(routes: Routes) -> Routes {
    routes
        .add(EXEC_READ, GET, paths::COMMANDS, classic::list)
        .of_command()
        .add(WORKER, GET, paths::COMMAND, classic::command)
        .add(WORKER, POST, paths::COMMAND_CLAIM, classic::claim)
        .with_body(MAX_BATCH_BODY)
        .add(WORKER, POST, paths::EVENTS, classic::event)
        .add(WORKER, POST, paths::EVENTS_BATCH, classic::events)
        .add(WORKER, POST, paths::VARS, vars::set)
        .with_usual_body()
        .add(READ_OR_WORK, GET, paths::VARS, vars::list)
        .add(WORKER, DELETE, paths::VARS, vars::clear)
        .add(READ_OR_WORK, GET, paths::VAR, vars::one)
        .add(WORKER, DELETE, paths::VAR, vars::forget)
        .with_body(MAX_REPORT_BODY)
        .add(WORKER, PUT, paths::RESULT_PUT, results::put)
        .with_usual_body()
        .of_others()
}

fn worker_routes(routes: Routes) -> Routes {
    let post_or_delete = POST.or(MethodFilter::DELETE);
    routes
        .add(WORKER, POST, paths::COMMANDS_LEASE, commands::lease)
        .add(WORKER, POST, paths::COMMANDS_HEARTBEAT, commands::heartbeat)
        .with_body(MAX_REPORT_BODY)
        .add(WORKER, POST, paths::COMMANDS_REPORT, commands::report)
        .with_usual_body()
        .add(WORKER, POST, paths::POOL_REGISTER, workers::register)
        .add(WORKER, POST, paths::POOL_HEARTBEAT, workers::heartbeat)
        .add(
            WORKER,
            post_or_delete,
            paths::POOL_DEREGISTER,
            workers::deregister,
        )
}

fn internal_routes(routes: Routes) -> Routes {
    routes
        .add(OUTBOX, GET, paths::OUTBOX, outbox::list)
        .add(OUTBOX, POST, paths::OUTBOX_CLAIM, outbox::claim)
        .add(
            OUTBOX,
            POST,
            paths::OUTBOX_MARK_PUBLISHED,
            outbox::mark_published,
        )
        .add(OUTBOX, POST, paths::OUTBOX_MARK_FAILED, outbox::mark_failed)
        .add(
            OUTBOX,
            GET,
            paths::OUTBOX_PENDING_COUNT,
            outbox::pending_count,
        )
        .add(OUTBOX, GET, paths::OUTBOX_DEAD, outbox::dead)
        .add(OUTBOX, GET, paths::QUARANTINE, outbox::quarantine)
        // What gives something up for good is an act of somebody.
        .audited()
        .add(OUTBOX, POST, paths::OUTBOX_REPLAY, outbox::replay)
        .add(OUTBOX, POST, paths::OUTBOX_DISCARD, outbox::discard)
        .add(RETENTION, POST, paths::CLEANUP_PURGE, internal::purge)
        .unaudited()
        .with_body(MAX_BATCH_BODY)
        .add(PROJECT, POST, paths::EVENTS_PROJECT, internal::project)
        .add(
            PROJECT,
            POST,
            paths::EVENTS_MATERIALIZE,
            internal::materialize,
        )
        .with_usual_body()
        .add(PROJECT, POST, paths::PROJECTION_ADVANCE, internal::advance)
}

/// What is known by name and not done here yet.
fn platform_routes(routes: Routes) -> Routes {
    let any = GET.or(POST).or(PUT);
    let closed = [
        (PROJECT, paths::INGRESS),
        (PROJECT, paths::CONTAINER_CALLBACK),
        (PLATFORM, paths::PLUGINS),
        (PLATFORM, paths::OBJECTS),
        (PLATFORM, paths::CROSS_REGION_RESOLVE),
    ];
    let routes = closed.into_iter().fold(routes, |routes, (access, path)| {
        routes.add(access, any, path, system::not_supported)
    });
    routes.add(PLATFORM, GET, paths::CELLS, internal::cells)
}

fn database_routes(routes: Routes) -> Routes {
    routes
        .add(ADMIN, GET, paths::DB_VALIDATE, system::validate_database)
        .audited()
        .add(ADMIN, POST, paths::DB_INIT, system::init_database)
        .add(ADMIN, POST, paths::SQL_CONSOLE, system::sql_console)
        .unaudited()
}

/// What is for users and workers, and not done here yet.
fn later_routes(routes: Routes) -> Routes {
    let closed = [
        (EXEC_RUN, POST, paths::EXECUTION_FORK),
        (EXEC_RUN, POST, paths::EXECUTION_RETRY),
        (EXEC_RUN, POST, paths::EXECUTIONS_BULK),
        (EXEC_READ, GET, paths::EXECUTION_DIFF),
        (EXEC_READ, POST, paths::EXECUTIONS_BISECT),
        (EXEC_READ, POST, paths::EXECUTION_WHAT_IF),
        (EXEC_READ, GET, paths::EXECUTION_EXPORT),
        (EXEC_READ, POST, paths::EXECUTION_VERIFY),
        (ADMIN, POST, paths::EXECUTIONS_IMPORT),
        (EXEC_READ, GET, paths::SUBSCRIPTIONS),
        (SUB_WRITE, POST, paths::SUBSCRIPTIONS),
        (EXEC_READ, GET, paths::SUBSCRIPTION),
        (SUB_WRITE, POST, paths::SUBSCRIPTION),
        (CATALOG_READ, GET, paths::SCHEDULES),
        (CATALOG_WRITE, POST, paths::SCHEDULES),
        (CATALOG_READ, GET, paths::SCHEDULE),
        (CATALOG_WRITE, PATCH.or(DELETE), paths::SCHEDULE),
        (CATALOG_READ, GET, paths::SCHEDULE_ACT),
        (EXEC_RUN, POST, paths::SCHEDULE_ACT),
        // Until a signature stands for an identity, one is asked for.
        (Access::Identity, POST, paths::INGRESS_PUSH),
        (CATALOG_READ, GET, paths::TEST_SUITE),
        (CATALOG_WRITE, PUT.or(DELETE), paths::TEST_SUITE),
        (WORKER, GET.or(PUT), paths::WORKER_OBJECTS),
        (WORKER, GET, paths::WORKER_PLUGINS),
    ];
    let closed = closed.into_iter();
    closed.fold(routes, |routes, (access, methods, path)| {
        routes.add(access, methods, path, system::not_supported)
    })
}
