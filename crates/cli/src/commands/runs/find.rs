//! Resolves the run that a command line names.

use noetl_api::execution::ExecutionSummary;
use noetl_api::query::ExecutionsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, PlaybookPath};

use crate::error::{Error, Result};
use crate::render::text_layout::escape_control;
use crate::roles::Target;

/// Name of the newest run that was started by a caller.
const LAST_RUN_NAME: &str = "last";
/// Maximum pages searched, newest first. A server examines many runs per page.
const MAX_SEARCHED_PAGES: usize = 10;
/// Runs per page when only the first match is needed.
const LAST_RUN_PAGE_ROWS: i64 = 20;
/// Maximum runs listed in an ambiguity error.
const MAX_LISTED_MATCHES: usize = 5;
/// Minimum digits of a full id. All ids have at least this many digits for decades. Fewer digits
/// may be part of an id.
const FULL_ID_DIGITS: usize = 18;

/// True if the platform itself started the run.
pub(super) fn is_platform_run(run: &ExecutionSummary) -> bool {
    run.path.as_ref().is_some_and(PlaybookPath::is_system)
}

/// Resolves a run by its id, by part of its id, or by `last`.
pub(crate) async fn find_run(target: &Target, text: &str) -> Result<ExecutionId> {
    let text = text.trim();
    if text == LAST_RUN_NAME {
        return find_last_run(target).await;
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_run_error(text));
    }
    match parse_full_id(text) {
        Some(id) => Ok(id),
        None => find_by_partial_id(target, text).await,
    }
}

/// Parses a full id. Returns `None` for a text that may be part of an id.
pub(crate) fn parse_full_id(text: &str) -> Option<ExecutionId> {
    let text = text.trim();
    (text.len() >= FULL_ID_DIGITS).then(|| text.parse().ok()).flatten()
}

/// Finds the newest run that was not started by another run or by the platform.
async fn find_last_run(target: &Target) -> Result<ExecutionId> {
    let mut query = ExecutionsQuery {
        limit: PageLimit::clamped(LAST_RUN_PAGE_ROWS),
        system: Some(false),
        roots: true,
        ..ExecutionsQuery::default()
    };
    for _ in 0..MAX_SEARCHED_PAGES {
        let page = target.list_executions(query.clone()).await?;
        // Older servers ignore these filters.
        let is_root =
            |run: &&ExecutionSummary| run.parent_execution_id.is_none() && !is_platform_run(run);
        if let Some(run) = page.executions.iter().find(is_root) {
            return Ok(run.execution_id);
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Err(run_not_found_error(LAST_RUN_NAME, true));
        }
    }
    Err(run_not_found_error(LAST_RUN_NAME, false))
}

async fn find_by_partial_id(target: &Target, part: &str) -> Result<ExecutionId> {
    let mut query = ExecutionsQuery {
        limit: PageLimit::MAX,
        q: Some(part.into()),
        ..ExecutionsQuery::default()
    };
    let mut matches = Vec::new();
    let mut is_complete = false;
    for _ in 0..MAX_SEARCHED_PAGES {
        let page = target.list_executions(query.clone()).await?;
        for run in page.executions {
            let id = run.execution_id.to_string();
            if id == part {
                return Ok(run.execution_id);
            }
            if id.starts_with(part) || id.ends_with(part) {
                matches.push(run.execution_id);
            }
        }
        query.cursor = page.next_cursor;
        is_complete = query.cursor.is_none();
        if is_complete || matches.len() > MAX_LISTED_MATCHES {
            break;
        }
    }
    match matches.as_slice() {
        [] if is_complete => Err(run_not_found_error(part, true)),
        [] => find_by_exact_id(target, part).await,
        [id] => Ok(*id),
        several => {
            let listed = several.iter().take(MAX_LISTED_MATCHES).map(ToString::to_string);
            let listed: Vec<String> = listed.collect();
            let message = format!("'{part}' matches several runs: {}", listed.join(", "));
            Err(Error::usage(message).with_help("use more digits of the id"))
        }
    }
}

/// Looks up a run whose full id is short and that is older than the searched runs.
async fn find_by_exact_id(target: &Target, text: &str) -> Result<ExecutionId> {
    let Ok(id) = text.parse() else {
        return Err(run_not_found_error(text, false));
    };
    match target.fetch_status(id).await {
        Err(error) if error.error_code() == Some(ErrorCode::NotFound) => {
            Err(run_not_found_error(text, false))
        }
        Err(error) => Err(error),
        Ok(_) => Ok(id),
    }
}

fn run_not_found_error(text: &str, is_complete: bool) -> Error {
    if is_complete {
        return Error::not_found(format!("there is no run '{text}'"))
            .with_help("list runs with: noetl runs list");
    }
    Error::not_found(format!(
        "there is no run '{text}' among the newest runs; older runs were not searched"
    ))
    .with_help("use its full id; list older runs with: noetl runs list --until WHEN")
}

/// Error of a text that cannot name a run.
pub(crate) fn invalid_run_error(text: &str) -> Error {
    Error::usage(format!("'{}' is not a run id", escape_control(text)))
        .with_help("use its id, part of its id, or 'last'")
}

#[cfg(test)]
mod tests;
