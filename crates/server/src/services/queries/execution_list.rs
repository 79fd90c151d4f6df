//! Listing of executions.

use noetl_api::query::{ExecutionList, ExecutionsQuery};
use noetl_store::{Execution, ExecutionCursor, ExecutionFilter};
use noetl_types::limits::{MAX_PAGE_OFFSET, PageLimit};
use noetl_types::{ExecutionId, PlaybookPath, TenantId, Text, Timestamp};

use crate::access::{AuthContext, CallContext};
use crate::error::{Result, RuntimeError};
use crate::services::Queries;
use crate::services::queries::cursor;
use crate::services::queries::execution::to_execution_summary;

/// Maximum rows that one page scans for a filter without an index. The cursor continues after them.
const MAX_SCANNED_ROWS: usize = 20_000;

impl Queries {
    /// Returns a page of executions, newest first.
    ///
    /// With a filter that has no index, a short page still has a cursor as long as there may be
    /// more matches after the scanned rows.
    pub async fn list_executions(
        &self,
        ctx: &CallContext,
        query: ExecutionsQuery,
    ) -> Result<ExecutionList> {
        let mut scan = ExecutionScan::new(&query, &ctx.auth)?;
        while !scan.is_done() {
            let page = self.infra.store().list_executions(scan.store_filter(&query)).await?;
            scan.add_page(page.executions, page.next, &query);
        }
        let now = self.infra.now();
        Ok(ExecutionList {
            executions: scan.found.iter().map(|found| to_execution_summary(found, now)).collect(),
            next_cursor: scan.next_cursor(&query),
        })
    }
}

/// Scan over the list.
struct ExecutionScan {
    auth_context: AuthContext,
    found: Vec<Execution>,
    limit: usize,
    /// Matches that are still to be skipped.
    skip: usize,
    /// Position where the scan continues, or `None` at the end of the list.
    position: Option<ScanPosition>,
    scanned: usize,
}

#[derive(Clone, Copy)]
enum ScanPosition {
    Start,
    After(ExecutionCursor),
}

impl ExecutionScan {
    fn new(query: &ExecutionsQuery, auth: &AuthContext) -> Result<Self> {
        let tenant_id = &auth.tenant_id;
        if query.offset > MAX_PAGE_OFFSET {
            return Err(RuntimeError::out_of_range(format!(
                "offset = {} is out of range 0..{MAX_PAGE_OFFSET}; use a cursor instead",
                query.offset
            )));
        }
        let position = match &query.cursor {
            None => match query.until {
                None => ScanPosition::Start,
                Some(until) => position_at_time(until),
            },
            Some(text) => ScanPosition::After(
                cursor::decode_execution_cursor(text, &executions_cursor_filter(query, tenant_id))
                    .ok_or_else(RuntimeError::invalid_cursor)?,
            ),
        };
        Ok(Self {
            auth_context: auth.clone(),
            found: Vec::new(),
            limit: to_usize(query.limit.get()),
            skip: to_usize(query.offset),
            position: Some(position),
            scanned: 0,
        })
    }

    fn is_done(&self) -> bool {
        self.found.len() >= self.limit
            || self.position.is_none()
            || self.scanned >= MAX_SCANNED_ROWS
    }

    fn store_filter(&self, query: &ExecutionsQuery) -> ExecutionFilter {
        let after = match self.position {
            Some(ScanPosition::After(cursor)) => Some(cursor),
            Some(ScanPosition::Start) | None => None,
        };
        // If every row matches, no more rows are read than requested.
        let limit =
            if self.skip == 0 && !needs_scan(query) && !self.auth_context.is_path_restricted() {
                query.limit
            } else {
                PageLimit::MAX
            };
        ExecutionFilter {
            tenant_id: self.auth_context.tenant_id.clone(),
            status: query.status,
            path: None,
            parent_execution_id: query.parent,
            after,
            limit,
        }
    }

    fn add_page(
        &mut self,
        rows: Vec<Execution>,
        next: Option<ExecutionCursor>,
        query: &ExecutionsQuery,
    ) {
        self.position = next.map(ScanPosition::After);
        for row in rows {
            if query.since.is_some_and(|since| row.facts.started_at < since) {
                // The list is in descending order of time.
                self.position = None;
                return;
            }
            self.scanned += 1;
            if !self.auth_context.can_see_path(row.facts.path.as_ref())
                || !execution_matches(&row, query)
            {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if self.found.len() == self.limit {
                // The page is full and there is more. The next page starts after the last entry.
                self.position = self.found.last().map(|last| ScanPosition::After(last.cursor()));
                return;
            }
            self.found.push(row);
        }
    }

    fn next_cursor(&self, query: &ExecutionsQuery) -> Option<Text> {
        match self.position? {
            ScanPosition::After(position) => {
                let filter = executions_cursor_filter(query, &self.auth_context.tenant_id);
                Some(cursor::encode_execution_cursor(position, &filter))
            }
            ScanPosition::Start => None,
        }
    }
}

/// Returns the filter that a cursor belongs to: everything that determines the rows of a list.
fn executions_cursor_filter(query: &ExecutionsQuery, tenant_id: &TenantId) -> String {
    let mut filter = tenant_id.to_string();
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
        filter.push('\n');
        filter.push_str(&part.unwrap_or_default());
    }
    // Only added if set, so that cursors from before these filters existed stay valid.
    if let Some(system) = query.system {
        filter.push_str(&format!("\nsystem={system}"));
    }
    if query.roots {
        filter.push_str("\nroots");
    }
    filter
}

/// True if the store has no index for the filter.
fn needs_scan(query: &ExecutionsQuery) -> bool {
    query.path.is_some()
        || query.catalog_id.is_some()
        || query.label.is_some()
        || query.q.is_some()
        || query.system.is_some()
        || query.roots
}

fn execution_matches(row: &Execution, query: &ExecutionsQuery) -> bool {
    let has_path = query.path.as_ref().is_none_or(|part| {
        let path = row.facts.path.as_ref();
        path.is_some_and(|path| path.as_str().contains(part.as_str()))
    });
    let has_catalog_id = |id| row.facts.catalog_id == Some(id);
    let is_system = row.facts.path.as_ref().is_some_and(PlaybookPath::is_system);
    has_path
        && query.system.is_none_or(|system| system == is_system)
        && (!query.roots || row.facts.parent_execution_id.is_none())
        && query.catalog_id.is_none_or(has_catalog_id)
        && query.label.as_ref().is_none_or(|label| has_label(row, label))
        && query.q.as_ref().is_none_or(|text| contains_text(row, text))
}

/// True if an execution has a label: `name`, or `name=value`.
fn has_label(row: &Execution, label: &str) -> bool {
    let (name, value) = match label.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (label, None),
    };
    let labels = row.facts.labels.as_ref();
    let Some(actual) = labels.and_then(|labels| labels.get(name)) else {
        return false;
    };
    value.is_none_or(|value| match actual.as_str() {
        Some(text) => text == value,
        None => actual.to_string() == value,
    })
}

/// True if id, path or error of an execution contain a text.
fn contains_text(row: &Execution, text: &str) -> bool {
    let path = row.facts.path.as_ref();
    row.execution_id.to_string().contains(text)
        || path.is_some_and(|path| path.as_str().contains(text))
        || row.view.error.as_ref().is_some_and(|error| error.contains(text))
}

/// Position as if the previous page had ended just above a time.
fn position_at_time(time: Timestamp) -> ScanPosition {
    ExecutionId::new(i64::MAX).map_or(ScanPosition::Start, |execution_id| {
        ScanPosition::After(ExecutionCursor { started_at: time, execution_id })
    })
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
