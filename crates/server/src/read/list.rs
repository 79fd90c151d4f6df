//! The list of executions.

use noetl_api::query::{ExecutionList, ExecutionsQuery};
use noetl_store::{Execution, ExecutionCursor, ExecutionFilter};
use noetl_types::limits::{MAX_PAGE_OFFSET, PageLimit};
use noetl_types::{ErrorCode, ExecutionId, PlaybookPath, TenantId, Text, Timestamp};

use super::cursor;
use super::execution::line;
use crate::runtime::{Behalf, Runtime, RuntimeError};

/// Rows that one page looks at, where a filter has no index. The cursor goes on behind them.
const MAX_SCANNED: usize = 20_000;

impl Runtime {
    /// A page of the executions, newest first.
    ///
    /// A page that a filter without an index leaves short has a cursor all the same, as long as there
    /// may be more behind the rows that were looked at.
    pub async fn executions(&self, query: ExecutionsQuery) -> Result<ExecutionList, RuntimeError> {
        let mut scan = Scan::new(&query, self.behalf())?;
        while !scan.is_over() {
            let page = self.store().executions(scan.filter(&query)).await?;
            scan.take(page.executions, page.next, &query);
        }
        let now = self.now();
        Ok(ExecutionList {
            executions: scan.found.iter().map(|found| line(found, now)).collect(),
            next_cursor: scan.next(&query),
        })
    }
}

/// A walk along the list.
struct Scan {
    behalf: Behalf,
    found: Vec<Execution>,
    wanted: usize,
    /// How many hits are still to be passed over.
    skip: usize,
    /// Where the walk goes on; `None` at the end of the list.
    at: Option<Place>,
    scanned: usize,
}

#[derive(Clone, Copy)]
enum Place {
    Start,
    Behind(ExecutionCursor),
}

impl Scan {
    fn new(query: &ExecutionsQuery, behalf: &Behalf) -> Result<Self, RuntimeError> {
        let tenant_id = &behalf.tenant_id;
        if query.offset > MAX_PAGE_OFFSET {
            return Err(RuntimeError::refused(
                ErrorCode::OutOfRange,
                format!(
                    "offset = {} is out of range 0..{MAX_PAGE_OFFSET}; go on by cursor",
                    query.offset
                ),
            ));
        }
        let at = match &query.cursor {
            None => match query.until {
                None => Place::Start,
                Some(until) => just_above(until),
            },
            Some(text) => {
                Place::Behind(cursor::read(text, &key(query, tenant_id)).ok_or_else(|| {
                    RuntimeError::refused(
                        ErrorCode::BadQuery,
                        "the cursor is not one that this list gave",
                    )
                })?)
            }
        };
        Ok(Self {
            behalf: behalf.clone(),
            found: Vec::new(),
            wanted: size(query.limit.get()),
            skip: size(query.offset),
            at: Some(at),
            scanned: 0,
        })
    }

    fn is_over(&self) -> bool {
        self.found.len() >= self.wanted || self.at.is_none() || self.scanned >= MAX_SCANNED
    }

    fn filter(&self, query: &ExecutionsQuery) -> ExecutionFilter {
        let after = match self.at {
            Some(Place::Behind(place)) => Some(place),
            Some(Place::Start) | None => None,
        };
        // Where every row is a hit, no more rows are read than are shown.
        let limit = if self.skip == 0 && !needs_scan(query) && !self.behalf.is_bound() {
            query.limit
        } else {
            PageLimit::MAX
        };
        ExecutionFilter {
            tenant_id: self.behalf.tenant_id.clone(),
            status: query.status,
            path: None,
            parent_execution_id: query.parent,
            after,
            limit,
        }
    }

    fn take(
        &mut self,
        rows: Vec<Execution>,
        next: Option<ExecutionCursor>,
        query: &ExecutionsQuery,
    ) {
        self.at = next.map(Place::Behind);
        for row in rows {
            if query
                .since
                .is_some_and(|since| row.facts.started_at < since)
            {
                // The list goes back in time.
                self.at = None;
                return;
            }
            self.scanned += 1;
            if !self.behalf.sees(row.facts.path.as_ref()) || !is_hit(&row, query) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if self.found.len() == self.wanted {
                // The page is full, and there is more: the next one begins behind its last line.
                self.at = self.found.last().map(|last| Place::Behind(last.cursor()));
                return;
            }
            self.found.push(row);
        }
    }

    fn next(&self, query: &ExecutionsQuery) -> Option<Text> {
        match self.at? {
            Place::Behind(place) => {
                let key = key(query, &self.behalf.tenant_id);
                Some(cursor::write(place, &key))
            }
            Place::Start => None,
        }
    }
}

/// What a cursor belongs to: all that decides which rows a list has.
fn key(query: &ExecutionsQuery, tenant_id: &TenantId) -> String {
    let mut key = tenant_id.to_string();
    let parts = [
        query.status.map(|status| status.to_string()),
        query.path.as_ref().map(ToString::to_string),
        query.catalog_id.map(|id| id.to_string()),
        query.parent.map(|id| id.to_string()),
        query.label.as_ref().map(ToString::to_string),
        query.since.map(|time| time.to_string()),
        query.until.map(|time| time.to_string()),
        query.q.as_ref().map(ToString::to_string),
    ];
    for part in parts {
        key.push('\n');
        key.push_str(&part.unwrap_or_default());
    }
    // Only where they are asked for, so that cursors given before there were such filters go on.
    if let Some(system) = query.system {
        key.push_str(&format!("\nsystem={system}"));
    }
    if query.roots {
        key.push_str("\nroots");
    }
    key
}

/// Whether a filter is one that the store has no index for.
fn needs_scan(query: &ExecutionsQuery) -> bool {
    query.path.is_some()
        || query.catalog_id.is_some()
        || query.label.is_some()
        || query.q.is_some()
        || query.system.is_some()
        || query.roots
}

fn is_hit(row: &Execution, query: &ExecutionsQuery) -> bool {
    let has_path = query.path.as_ref().is_none_or(|part| {
        let path = row.facts.path.as_ref();
        path.is_some_and(|path| path.as_str().contains(part.as_str()))
    });
    let is_of = |id| row.facts.catalog_id == Some(id);
    let is_system = row
        .facts
        .path
        .as_ref()
        .is_some_and(PlaybookPath::is_of_platform);
    has_path
        && query.system.is_none_or(|wanted| wanted == is_system)
        && (!query.roots || row.facts.parent_execution_id.is_none())
        && query.catalog_id.is_none_or(is_of)
        && query
            .label
            .as_ref()
            .is_none_or(|label| is_labelled(row, label))
        && query.q.as_ref().is_none_or(|text| mentions(row, text))
}

/// Whether an execution has a label: `name`, or `name=value`.
fn is_labelled(row: &Execution, label: &str) -> bool {
    let (name, wanted) = match label.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (label, None),
    };
    let labels = row.facts.labels.as_ref();
    let Some(found) = labels.and_then(|labels| labels.get(name)) else {
        return false;
    };
    wanted.is_none_or(|wanted| match found.as_str() {
        Some(text) => text == wanted,
        None => found.to_string() == wanted,
    })
}

/// Whether id, path or error of an execution hold a text.
fn mentions(row: &Execution, text: &str) -> bool {
    let path = row.facts.path.as_ref();
    row.execution_id.to_string().contains(text)
        || path.is_some_and(|path| path.as_str().contains(text))
        || row
            .view
            .error
            .as_ref()
            .is_some_and(|error| error.contains(text))
}

/// As if the page before had ended just above a time.
fn just_above(time: Timestamp) -> Place {
    ExecutionId::new(i64::MAX).map_or(Place::Start, |execution_id| {
        Place::Behind(ExecutionCursor {
            started_at: time,
            execution_id,
        })
    })
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
