//! Which run the user means.

use noetl_api::query::ExecutionsQuery;
use noetl_types::ExecutionId;
use noetl_types::limits::PageLimit;

use crate::error::Error;
use crate::render::words::visible;
use crate::roles::Host;

/// The newest run.
const LAST: &str = "last";
/// Runs among which a part of an id is looked for, newest first.
const MAX_LOOKED_AT: usize = 5_000;
/// Runs that are named where several are meant.
const MAX_NAMED: usize = 5;
/// Digits of an id: as many as every id has for a century to come.
const WHOLE: usize = 16;

/// The run of an id, of a part of one, or the last one.
pub(crate) async fn find(host: &Host, text: &str) -> Result<ExecutionId, Error> {
    let text = text.trim();
    if text == LAST {
        let newest = page(host, PageLimit::MIN, None).await?;
        let newest = newest.executions.first();
        return newest
            .map(|run| run.execution_id)
            .ok_or_else(|| unknown(text));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::BadRun {
            text: visible(text),
        });
    }
    if text.len() >= WHOLE {
        return text.parse().map_err(|_| unknown(text));
    }
    among(host, text).await
}

async fn among(host: &Host, part: &str) -> Result<ExecutionId, Error> {
    let (mut found, mut looked_at, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = page(host, PageLimit::MAX, cursor).await?;
        looked_at += page.executions.len();
        for run in page.executions {
            let id = run.execution_id.to_string();
            if id.starts_with(part) || id.ends_with(part) {
                found.push(run.execution_id);
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() || looked_at >= MAX_LOOKED_AT || found.len() > MAX_NAMED {
            break;
        }
    }
    match found.as_slice() {
        [] => Err(unknown(part)),
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

async fn page(
    host: &Host,
    limit: PageLimit,
    cursor: Option<noetl_types::Text>,
) -> Result<noetl_api::query::ExecutionList, Error> {
    let query = ExecutionsQuery {
        limit,
        cursor,
        ..ExecutionsQuery::default()
    };
    Ok(host.executions(query).await?)
}

fn unknown(text: &str) -> Error {
    Error::NoRun {
        text: text.to_owned(),
    }
}
