//! Which run the user means.

use noetl_api::execution::ExecutionLine;
use noetl_api::query::ExecutionsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, PlaybookPath};

use crate::error::Error;
use crate::render::words::visible;
use crate::roles::Host;

/// The newest run that somebody started.
const LAST: &str = "last";
/// Pages that are looked through, newest first; a server looks at many runs for each of them.
const MAX_PAGES: usize = 10;
/// Runs that are asked for where the first one is wanted.
const FEW: i64 = 20;
/// Runs that are named where several are meant.
const MAX_NAMED: usize = 5;
/// Digits of an id: as many as every id has for decades to come. Fewer may be a part of one.
const WHOLE: usize = 18;

/// Whether the platform runs it for itself.
pub(super) fn is_of_platform(run: &ExecutionLine) -> bool {
    run.path.as_ref().is_some_and(PlaybookPath::is_of_platform)
}

/// The run of an id, of a part of one, or the last one.
pub(crate) async fn find(host: &Host, text: &str) -> Result<ExecutionId, Error> {
    let text = text.trim();
    if text == LAST {
        return last(host).await;
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::BadRun {
            text: visible(text),
        });
    }
    match whole(text) {
        Some(id) => Ok(id),
        None => among(host, text).await,
    }
}

/// The id that a text is, where it cannot be a part of another.
pub(crate) fn whole(text: &str) -> Option<ExecutionId> {
    let text = text.trim();
    (text.len() >= WHOLE).then(|| text.parse().ok()).flatten()
}

/// The newest run that somebody started: none that another run started, and none of the platform's.
async fn last(host: &Host) -> Result<ExecutionId, Error> {
    let mut query = ExecutionsQuery {
        limit: PageLimit::clamped(FEW),
        system: Some(false),
        roots: true,
        ..ExecutionsQuery::default()
    };
    for _ in 0..MAX_PAGES {
        let page = host.executions(query.clone()).await?;
        // A server of an older release shows all of them.
        let is_meant =
            |run: &&ExecutionLine| run.parent_execution_id.is_none() && !is_of_platform(run);
        if let Some(run) = page.executions.iter().find(is_meant) {
            return Ok(run.execution_id);
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Err(unknown(LAST, true));
        }
    }
    Err(unknown(LAST, false))
}

async fn among(host: &Host, part: &str) -> Result<ExecutionId, Error> {
    let mut query = ExecutionsQuery {
        limit: PageLimit::MAX,
        q: Some(part.into()),
        ..ExecutionsQuery::default()
    };
    let mut found = Vec::new();
    let mut is_all = false;
    for _ in 0..MAX_PAGES {
        let page = host.executions(query.clone()).await?;
        for run in page.executions {
            let id = run.execution_id.to_string();
            if id == part {
                return Ok(run.execution_id);
            }
            if id.starts_with(part) || id.ends_with(part) {
                found.push(run.execution_id);
            }
        }
        query.cursor = page.next_cursor;
        is_all = query.cursor.is_none();
        if is_all || found.len() > MAX_NAMED {
            break;
        }
    }
    match found.as_slice() {
        [] if is_all => Err(unknown(part, true)),
        [] => exactly(host, part).await,
        [one] => Ok(*one),
        several => {
            let named = several.iter().take(MAX_NAMED);
            Err(Error::ManyRuns {
                text: part.to_owned(),
                some: named.map(ToString::to_string).collect(),
            })
        }
    }
}

/// A run whose whole id is short, and that is older than those that were looked at.
async fn exactly(host: &Host, text: &str) -> Result<ExecutionId, Error> {
    let Ok(id) = text.parse() else {
        return Err(unknown(text, false));
    };
    match host.status(id).await {
        Err(error) if error.code() == Some(ErrorCode::NotFound) => Err(unknown(text, false)),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(id),
    }
}

fn unknown(text: &str, is_all: bool) -> Error {
    let text = text.to_owned();
    if is_all {
        Error::NoRun { text }
    } else {
        Error::NotAmongNewest { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_a_part_is_a_whole_id() {
        assert!(whole("380639183661694976").is_some());
        assert!(whole("1380639183661694976").is_some());
        assert!(whole("80639183661694976").is_none(), "17 digits");
        assert!(whole("0639183661694976").is_none(), "16 digits");
        assert!(whole("last").is_none());
    }
}
