//! Routes that are not supported yet.

use axum::routing::MethodFilter;
use noetl_api::paths;
use noetl_types::ErrorCode;

use super::{
    ADMIN, CATALOG_READ, CATALOG_WRITE, EXEC_READ, EXEC_RUN, PLATFORM, PROJECT, Route, WORKER,
};
use crate::http::http_error::HttpError;
use crate::http::middleware::access::{RouteAccess, Scope};

const SUB_WRITE: RouteAccess = RouteAccess::AnyOf(&[Scope::SubWrite]);

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const DELETE: MethodFilter = MethodFilter::DELETE;
const PATCH: MethodFilter = MethodFilter::PATCH;

pub(super) fn routes() -> Vec<Route> {
    let any = GET.or(POST).or(PUT);
    let unsupported = [
        (PROJECT, any, paths::INGRESS),
        (PROJECT, any, paths::CONTAINER_CALLBACK),
        (PLATFORM, any, paths::PLUGINS),
        (PLATFORM, any, paths::OBJECTS),
        (PLATFORM, any, paths::CROSS_REGION_RESOLVE),
        (ADMIN, GET, paths::THREADS),
        (ADMIN, GET.or(POST), paths::PROFILER),
        (EXEC_READ, POST, paths::EXECUTION_ANALYZE_AI),
        (CATALOG_READ, POST, paths::CATALOG_EXPLAIN_AI),
        (CATALOG_READ, POST, paths::CATALOG_GENERATE_AI),
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
    unsupported
        .map(|(access, methods, path)| Route::new(methods, path, access, not_supported))
        .collect()
}

/// Answers requests for routes that are reserved but not supported.
async fn not_supported() -> HttpError {
    HttpError::new(
        ErrorCode::NotSupported,
        "this operation is not supported in this version; nothing was changed",
    )
}
