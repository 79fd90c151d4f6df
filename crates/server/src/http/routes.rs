//! All routes, each with its access rule, maximum body size and audit policy.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodFilter;
use noetl_api::paths;
use noetl_types::{ByteSize, SecretOperation};
use tokio_util::sync::CancellationToken;

use super::access::{RouteAccess, Scope};
use super::authorized_runtime::AppState;
use super::handlers::{
    audit, catalog, classic, commands, credentials, event_stream, execute, executions, health,
    internal, keychain, live_events, openapi, outbox, replay, results, signals, system, tokens,
    vars, workers,
};
use super::listener_kind::ListenerKind;
#[cfg(test)]
pub(super) use super::route_table::RouteDeclaration;
use super::route_table::RouteTable;
use super::settings::HttpSettings;
use crate::runtime::Runtime;

/// Maximum body size of requests with a playbook document.
const MAX_CATALOG_BODY_SIZE: ByteSize = ByteSize::from_mib(8);
/// Maximum body size of batch requests.
const MAX_BATCH_BODY_SIZE: ByteSize = ByteSize::from_mib(8);
/// Maximum body size of a report, which may contain a result of the maximum size.
const MAX_REPORT_BODY_SIZE: ByteSize = ByteSize::from_mib(72);

const EXEC_READ: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRead]);
const EXEC_RUN: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRun]);
const EXEC_APPROVE: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecApprove]);
const CATALOG_READ: RouteAccess = RouteAccess::AnyOf(&[Scope::CatalogRead]);
const CATALOG_WRITE: RouteAccess = RouteAccess::AnyOf(&[Scope::CatalogWrite]);
const SUB_WRITE: RouteAccess = RouteAccess::AnyOf(&[Scope::SubWrite]);
const WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::Worker]);
const METRICS_READ: RouteAccess = RouteAccess::AnyOf(&[Scope::MetricsRead]);
/// Users start executions, and workers start child executions.
const EXEC_RUN_OR_WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRun, Scope::Worker]);
/// Users and workers read definitions.
const CATALOG_READ_OR_WORKER: RouteAccess =
    RouteAccess::AnyOf(&[Scope::CatalogRead, Scope::Worker]);
const CRED_USE: RouteAccess = RouteAccess::AnyOf(&[Scope::CredUse]);
const CRED_ADMIN: RouteAccess = RouteAccess::AnyOf(&[Scope::CredAdmin]);
/// Users and workers read credentials.
const CRED_USE_OR_WORKER: RouteAccess =
    RouteAccess::AnyOf(&[Scope::CredUse, Scope::CredAdmin, Scope::Worker]);
/// Workers read sealed credentials and cache resolved ones. Credential admins may do both too.
const CRED_ADMIN_OR_WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::CredAdmin, Scope::Worker]);
const ADMIN: RouteAccess = RouteAccess::AnyOf(&[Scope::Admin]);
const EXEC_READ_OR_WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRead, Scope::Worker]);

const OUTBOX: RouteAccess = RouteAccess::Internal(Scope::InternalOutbox);
const PROJECT: RouteAccess = RouteAccess::Internal(Scope::InternalProject);
const RETENTION: RouteAccess = RouteAccess::Internal(Scope::InternalRetention);
const PLATFORM: RouteAccess = RouteAccess::Internal(Scope::Admin);
const WALLET: RouteAccess = RouteAccess::Internal(Scope::CredAdmin);

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const DELETE: MethodFilter = MethodFilter::DELETE;
const PATCH: MethodFilter = MethodFilter::PATCH;

/// Builds the router of a listener.
pub(super) fn build_router(
    runtime: Runtime,
    settings: &HttpSettings,
    listener_kind: ListenerKind,
    shutdown: CancellationToken,
) -> Router {
    let routes =
        RouteTable::new(settings.max_body, settings.internal_token, Arc::clone(runtime.metrics()));
    add_all_routes(routes.for_listener(listener_kind))
        .into_router(AppState::new(runtime, settings, shutdown))
}

fn add_all_routes(routes: RouteTable) -> RouteTable {
    let routes = health_routes(routes);
    let routes = execution_routes(routes);
    let routes = result_routes(routes);
    let routes = pool_routes(routes);
    let routes = control_routes(routes);
    let routes = catalog_write_routes(routes);
    let routes = catalog_read_routes(routes);
    let routes = system_routes(routes);
    let routes = stream_routes(routes);
    let routes = worker_routes(routes);
    let routes = classic_routes(routes);
    let routes = internal_routes(routes);
    let routes = platform_routes(routes);
    let routes = database_routes(routes);
    let routes = unsupported_routes(routes);
    let routes = secret_routes(routes);
    identity_routes(routes)
}

/// Declarations of all routes.
#[cfg(test)]
pub(super) fn route_declarations() -> Vec<RouteDeclaration> {
    add_all_routes(RouteTable::new(ByteSize::from_mib(1), None, Arc::default())).into_declarations()
}

/// Every access to a secret is audited, including reads.
fn secret_routes(routes: RouteTable) -> RouteTable {
    use SecretOperation::{Delete, Inspect, IssueSealed, Rotate, Set};
    let routes = routes
        .add_route(CRED_USE, GET, paths::CREDENTIALS, credentials::list_credentials)
        .with_secret_audit(Set)
        .add_route(CRED_ADMIN, POST, paths::CREDENTIALS, credentials::put_credential)
        // One route serves metadata, admin reads and worker reads. Its handler sets the operation.
        .with_secret_audit(Inspect)
        .with_command_token()
        .add_route(CRED_USE_OR_WORKER, GET, paths::CREDENTIAL, credentials::get_credential)
        .without_command_token()
        .with_secret_audit(IssueSealed)
        .add_route(
            CRED_ADMIN_OR_WORKER,
            GET,
            paths::CREDENTIAL_SEALED,
            credentials::get_sealed_credential,
        )
        .with_secret_audit(Delete)
        .add_route(CRED_ADMIN, DELETE, paths::CREDENTIAL, credentials::delete_credential)
        .with_secret_audit(Rotate)
        .add_route(CRED_ADMIN, POST, paths::ROTATE_KEYS, credentials::rotate_credentials)
        .add_route(WALLET, POST, paths::WALLET_ROTATE, credentials::rotate_wallet)
        .without_audit()
        .add_route(WALLET, GET, paths::WALLET_KEY_STATUS, credentials::get_key_status)
        .add_route(PLATFORM, GET, paths::SECRET_AUDIT, audit::list_secret_operations);
    keychain_routes(routes)
}

fn keychain_routes(routes: RouteTable) -> RouteTable {
    use SecretOperation::{KeychainDelete, KeychainGet, KeychainPut};
    routes
        .with_secret_audit(KeychainGet)
        .add_route(CRED_USE_OR_WORKER, GET, paths::KEYCHAIN, keychain::get_keychain_entry)
        .with_secret_audit(KeychainPut)
        .add_route(CRED_ADMIN_OR_WORKER, POST, paths::KEYCHAIN, keychain::put_keychain_entry)
        .with_secret_audit(KeychainDelete)
        .add_route(CRED_ADMIN_OR_WORKER, DELETE, paths::KEYCHAIN, keychain::delete_keychain_entry)
        .without_audit()
        .add_route(
            CRED_USE_OR_WORKER,
            GET,
            paths::KEYCHAIN_CATALOG,
            keychain::list_keychain_entries,
        )
}

fn identity_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(ADMIN, GET, paths::TOKENS, tokens::list_tokens)
        .add_route(ADMIN, GET, paths::AUDIT, audit::list_audit_log)
        .with_audit()
        .add_route(ADMIN, POST, paths::TOKENS, tokens::create_token)
        .add_route(ADMIN, DELETE, paths::TOKEN, tokens::revoke_token)
        .without_audit()
}

fn health_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(RouteAccess::Open, GET, paths::LIVEZ, health::check_liveness)
        .add_route(RouteAccess::Open, GET, paths::HEALTH, health::check_liveness)
        .add_route(RouteAccess::Open, GET, paths::READYZ, health::check_readiness)
        .add_route(METRICS_READ, GET, paths::METRICS, health::get_metrics)
}

fn execution_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(EXEC_RUN_OR_WORKER, POST, paths::EXECUTE, execute::start_execution)
        .add_route(EXEC_READ, GET, paths::EXECUTIONS, executions::list_executions)
        .add_route(EXEC_READ, GET, paths::EXECUTION, executions::get_execution)
        .add_route(EXEC_READ, GET, paths::EXECUTION_STATUS, executions::get_execution_status)
        .add_route(EXEC_READ, GET, paths::EXECUTION_EVENTS, executions::list_execution_events)
        .add_route(EXEC_READ, GET, paths::EXECUTION_EVENTS_STREAM, live_events::follow_execution)
        .add_route(EXEC_READ, GET, paths::EVENTS_STREAM, live_events::follow_events)
        .add_route(EXEC_READ, GET, paths::REPLAY_STATE, replay::get_replay_state)
        .add_route(EXEC_READ, GET, paths::EXECUTION_EXPLAIN, executions::explain_execution)
        .add_route(EXEC_READ, POST, paths::EXECUTION_ANALYZE, executions::analyze_execution)
        .with_audit()
        .add_route(EXEC_RUN, POST, paths::EXECUTION_CANCEL, execute::cancel_execution)
        .without_audit()
}

fn result_routes(routes: RouteTable) -> RouteTable {
    routes
        .with_command_token()
        .add_route(EXEC_READ_OR_WORKER, GET, paths::RESULT_RESOLVE, results::resolve_result)
        .without_command_token()
}

fn pool_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(EXEC_READ, GET, paths::POOLS, workers::list_pools)
        .with_audit()
        .add_route(EXEC_RUN, POST, paths::POOL_DRAIN, workers::drain_worker)
        .without_audit()
}

fn control_routes(routes: RouteTable) -> RouteTable {
    routes
        .with_max_body(MAX_BATCH_BODY_SIZE)
        .add_route(EXEC_RUN, POST, paths::EXECUTE_BATCH, execute::start_executions)
        .with_default_body()
        .with_audit()
        .add_route(EXEC_RUN, POST, paths::EXECUTION_RERUN, execute::rerun_execution)
        .add_route(EXEC_RUN, POST, paths::EXECUTION_STOP, execute::cancel_execution)
        .add_route(EXEC_RUN, POST, paths::EXECUTION_PAUSE, execute::pause_execution)
        .add_route(EXEC_RUN, POST, paths::EXECUTION_RESUME, execute::resume_execution)
        .add_route(EXEC_RUN, POST, paths::EXECUTION_SIGNAL, signals::send_signal)
        .add_route(EXEC_RUN, POST, paths::SIGNALS, signals::broadcast_signal)
        .add_route(EXEC_APPROVE, POST, paths::EXECUTION_APPROVE, signals::submit_approval)
        .add_route(ADMIN, POST, paths::EXECUTION_FINALIZE, execute::finalize_execution)
        .add_route(ADMIN, POST, paths::EXECUTIONS_CLEANUP, execute::clean_up_executions)
        .without_audit()
        .add_route(EXEC_READ, GET, paths::APPROVALS, signals::list_approvals)
        .add_route(
            EXEC_READ_OR_WORKER,
            GET,
            paths::EXECUTION_CANCELLATION,
            executions::check_cancellation,
        )
}

fn catalog_write_routes(routes: RouteTable) -> RouteTable {
    routes
        .with_max_body(MAX_CATALOG_BODY_SIZE)
        .with_audit()
        .add_route(CATALOG_WRITE, POST, paths::CATALOG_REGISTER, catalog::register_definition)
        .add_route(
            CATALOG_WRITE,
            POST,
            paths::CATALOG_REGISTER_BATCH,
            catalog::register_definitions,
        )
        .add_route(CATALOG_WRITE, PUT, paths::CATALOG_CONTENT, catalog::put_definition_content)
        .add_route(CATALOG_WRITE, PUT, paths::CATALOG_PLAYBOOK, catalog::register_definition)
        .with_default_body()
        .add_route(
            CATALOG_WRITE,
            DELETE,
            paths::CATALOG_PLAYBOOK_BY_ID,
            catalog::archive_definition,
        )
        .add_route(CATALOG_WRITE, POST, paths::CATALOG_RESTORE, catalog::restore_definition)
        .without_audit()
}

fn catalog_read_routes(routes: RouteTable) -> RouteTable {
    routes
        .with_max_body(MAX_CATALOG_BODY_SIZE)
        .add_route(CATALOG_READ, POST, paths::CATALOG_VALIDATE, catalog::validate_definition)
        .with_default_body()
        .add_route(CATALOG_READ, GET, paths::CATALOG_CONTENT, catalog::get_definition_content)
        .add_route(CATALOG_READ, POST, paths::CATALOG_LIST, catalog::list_definitions)
        .add_route(CATALOG_READ, GET, paths::CATALOG_LIST_KIND, catalog::list_definition_paths)
        .add_route(CATALOG_READ, POST, paths::CATALOG_AGENTS, catalog::list_agents)
        .add_route(CATALOG_READ_OR_WORKER, POST, paths::CATALOG_RESOURCE, catalog::get_definition)
        .add_route(CATALOG_READ, GET, paths::CATALOG_DETAIL, catalog::get_definition_view)
}

fn system_routes(routes: RouteTable) -> RouteTable {
    let any = GET.or(POST);
    routes
        .add_route(EXEC_READ, GET, paths::DASHBOARD_STATS, system::get_dashboard_stats)
        .add_route(EXEC_READ, GET, paths::DASHBOARD_WIDGETS, system::get_dashboard_widgets)
        .add_route(EXEC_READ, GET, paths::SHARD_INFO, system::get_shard_info)
        .add_route(RouteAccess::Identity, GET, paths::WHOAMI, system::whoami)
        .add_route(RouteAccess::Identity, GET, paths::OPENAPI, openapi::get_openapi_document)
        // The page is the same for every caller and contains no tenant data. A browser sends no
        // token.
        .add_route(RouteAccess::Open, GET, paths::DOCS, openapi::get_openapi_page)
        .add_route(RouteAccess::Identity, GET, paths::SCHEMA, system::get_json_schema)
        .add_route(RouteAccess::Identity, GET, paths::API_HEALTH, system::get_health)
        .add_route(ADMIN, GET, paths::STATUS, system::get_server_status)
        .add_route(ADMIN, GET, paths::POOL_STATUS, system::get_server_status)
        .add_route(ADMIN, GET, paths::THREADS, system::not_supported)
        .add_route(ADMIN, any, paths::PROFILER, system::not_supported)
        .add_route(EXEC_READ, POST, paths::EXECUTION_ANALYZE_AI, system::not_supported)
        .add_route(CATALOG_READ, POST, paths::CATALOG_EXPLAIN_AI, system::not_supported)
        .add_route(CATALOG_READ, POST, paths::CATALOG_GENERATE_AI, system::not_supported)
}

fn stream_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(EXEC_READ, GET, paths::STREAM_STATUS, event_stream::get_stream_status)
        .add_route(EXEC_READ, GET, paths::STREAM_FEED, event_stream::read_stream_feed)
        .add_route(EXEC_READ, GET, paths::STREAM_EVENT, event_stream::get_stream_event)
        .add_route(PLATFORM, GET, paths::INTERNAL_STREAM_STATUS, event_stream::get_stream_status)
        .with_audit()
        .add_route(PLATFORM, POST, paths::STREAM_REBUILD, event_stream::rebuild_stream)
        .without_audit()
}

fn classic_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(EXEC_READ, GET, paths::COMMANDS, classic::list_commands)
        .with_command_token()
        .add_route(WORKER, GET, paths::COMMAND, classic::get_command)
        .add_route(WORKER, POST, paths::COMMAND_CLAIM, classic::claim_command)
        .with_max_body(MAX_BATCH_BODY_SIZE)
        .add_route(WORKER, POST, paths::EVENTS, classic::post_event)
        .add_route(WORKER, POST, paths::EVENTS_BATCH, classic::post_events)
        .add_route(WORKER, POST, paths::VARS, vars::set_variables)
        .with_default_body()
        .add_route(EXEC_READ_OR_WORKER, GET, paths::VARS, vars::list_variables)
        .add_route(WORKER, DELETE, paths::VARS, vars::clear_variables)
        .add_route(EXEC_READ_OR_WORKER, GET, paths::VAR, vars::get_variable)
        .add_route(WORKER, DELETE, paths::VAR, vars::delete_variable)
        .with_max_body(MAX_REPORT_BODY_SIZE)
        .add_route(WORKER, PUT, paths::RESULT_PUT, results::put_result)
        .with_default_body()
        .without_command_token()
}

fn worker_routes(routes: RouteTable) -> RouteTable {
    let post_or_delete = POST.or(MethodFilter::DELETE);
    routes
        .add_route(WORKER, POST, paths::COMMANDS_LEASE, commands::lease_commands)
        .add_route(WORKER, POST, paths::COMMANDS_HEARTBEAT, commands::renew_leases)
        .with_max_body(MAX_REPORT_BODY_SIZE)
        .add_route(WORKER, POST, paths::COMMANDS_REPORT, commands::report_commands)
        .with_default_body()
        .add_route(WORKER, POST, paths::POOL_REGISTER, workers::register_worker)
        .add_route(WORKER, POST, paths::POOL_HEARTBEAT, workers::record_worker_heartbeat)
        .add_route(WORKER, post_or_delete, paths::POOL_DEREGISTER, workers::deregister_worker)
}

fn internal_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(OUTBOX, GET, paths::OUTBOX, outbox::list_outbox_rows)
        .add_route(OUTBOX, POST, paths::OUTBOX_CLAIM, outbox::claim_outbox_rows)
        .add_route(OUTBOX, POST, paths::OUTBOX_MARK_PUBLISHED, outbox::mark_rows_published)
        .add_route(OUTBOX, POST, paths::OUTBOX_MARK_FAILED, outbox::mark_row_failed)
        .add_route(OUTBOX, GET, paths::OUTBOX_PENDING_COUNT, outbox::count_pending_rows)
        .add_route(OUTBOX, GET, paths::OUTBOX_DEAD, outbox::list_dead_rows)
        .add_route(OUTBOX, GET, paths::QUARANTINE, outbox::list_quarantine)
        // Operations that discard data permanently are audited.
        .with_audit()
        .add_route(OUTBOX, POST, paths::OUTBOX_REPLAY, outbox::replay_dead_rows)
        .add_route(OUTBOX, POST, paths::OUTBOX_DISCARD, outbox::discard_dead_rows)
        .add_route(RETENTION, POST, paths::CLEANUP_PURGE, internal::purge_data)
        .without_audit()
        .with_max_body(MAX_BATCH_BODY_SIZE)
        .add_route(PROJECT, POST, paths::EVENTS_PROJECT, internal::project_events)
        .add_route(PROJECT, POST, paths::EVENTS_MATERIALIZE, internal::materialize_events)
        .with_default_body()
        .add_route(PROJECT, POST, paths::PROJECTION_ADVANCE, internal::advance_projection)
}

/// Platform routes, most of which are not supported yet.
fn platform_routes(routes: RouteTable) -> RouteTable {
    let any = GET.or(POST).or(PUT);
    let unsupported = [
        (PROJECT, paths::INGRESS),
        (PROJECT, paths::CONTAINER_CALLBACK),
        (PLATFORM, paths::PLUGINS),
        (PLATFORM, paths::OBJECTS),
        (PLATFORM, paths::CROSS_REGION_RESOLVE),
    ];
    let routes = unsupported.into_iter().fold(routes, |routes, (access, path)| {
        routes.add_route(access, any, path, system::not_supported)
    });
    routes.add_route(PLATFORM, GET, paths::CELLS, internal::list_cells)
}

fn database_routes(routes: RouteTable) -> RouteTable {
    routes
        .add_route(ADMIN, GET, paths::DB_VALIDATE, system::validate_database)
        .with_audit()
        .add_route(ADMIN, POST, paths::DB_INIT, system::init_database)
        .add_route(ADMIN, POST, paths::SQL_CONSOLE, system::sql_console)
        .without_audit()
}

/// Routes of users and workers that are not supported yet.
fn unsupported_routes(routes: RouteTable) -> RouteTable {
    let unsupported = [
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
        (CATALOG_READ, GET, paths::SCHEDULE_ACTION),
        (EXEC_RUN, POST, paths::SCHEDULE_ACTION),
        // Requires authentication until signed requests are supported.
        (RouteAccess::Identity, POST, paths::INGRESS_PUSH),
        (CATALOG_READ, GET, paths::TEST_SUITE),
        (CATALOG_WRITE, PUT.or(DELETE), paths::TEST_SUITE),
        (WORKER, GET.or(PUT), paths::WORKER_OBJECTS),
        (WORKER, GET, paths::WORKER_PLUGINS),
    ];
    let unsupported = unsupported.into_iter();
    unsupported.fold(routes, |routes, (access, methods, path)| {
        routes.add_route(access, methods, path, system::not_supported)
    })
}
