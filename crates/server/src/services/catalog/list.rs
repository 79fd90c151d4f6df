//! Lists, contents, versions and validation of definitions.

use noetl_api::catalog::{
    AgentListRequest, ArchiveResponse, CatalogList, CatalogListEntry, CatalogListRequest,
    ContentRequest, PlaybookContent, RegisterBatchRequest, RegisterBatchResponse,
    RegisterBatchResult, RegisterRequest, RegisterResponse, ValidationReport,
};
use noetl_playbook::{Severity, to_json};
use noetl_store::{CatalogEntry, CatalogFilter, CatalogKey, CatalogVersionFilter, ExecutionFilter};
use noetl_types::limits::{MAX_REGISTER_BATCH, PageLimit};
use noetl_types::{CatalogId, ErrorCode, ExecutionStatus, Json, PlaybookPath, Text};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError, parse_cursor};
use crate::services::Catalog;
use crate::services::catalog::register::diagnostic_to_json;

/// Maximum definitions that one list scans.
const MAX_SCANNED_DEFINITIONS: usize = 10_000;
const AGENT_KIND: &str = "agent";

/// Parses the cursor of a page of all versions.
fn parse_version_cursor(cursor: &str) -> Result<(PlaybookPath, u32)> {
    let (version, path) = cursor.split_once(':').ok_or_else(RuntimeError::invalid_cursor)?;
    let path = PlaybookPath::new(path).map_err(|_| RuntimeError::invalid_cursor())?;
    let version = version.parse().map_err(|_| RuntimeError::invalid_cursor())?;
    Ok((path, version))
}

impl Catalog {
    /// Registers a batch of definitions independently of each other.
    pub async fn register_definitions(
        &self,
        ctx: &CallContext,
        batch: RegisterBatchRequest,
        is_admin: bool,
    ) -> Result<RegisterBatchResponse> {
        if batch.items.len() > MAX_REGISTER_BATCH {
            let text = format!("a call may register at most {MAX_REGISTER_BATCH} definitions");
            return Err(RuntimeError::invalid(text));
        }
        let mut answer = RegisterBatchResponse {
            registered: 0,
            failed: 0,
            results: Vec::with_capacity(batch.items.len()),
        };
        for (index, item) in (0..).zip(batch.items) {
            let registered = self.register_with_role(ctx, item, is_admin).await;
            let is_registered = registered.is_ok();
            answer.registered += u32::from(is_registered);
            answer.failed += u32::from(!is_registered);
            answer.results.push(to_batch_result(index, registered));
        }
        Ok(answer)
    }

    /// Returns a page of definitions, ordered by path.
    pub async fn list_definitions(
        &self,
        ctx: &CallContext,
        request: CatalogListRequest,
    ) -> Result<CatalogList> {
        if request.latest_only == Some(false) {
            return self.list_all_versions(ctx, request).await;
        }
        let limit = request.limit.unwrap_or(PageLimit::MAX);
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let after = request.cursor.as_deref().map(PlaybookPath::new);
        let after = after.transpose().map_err(|_| RuntimeError::invalid_cursor())?;
        let kind = request.resource_type.map(|kind| kind.to_lowercase().into());
        let include_content = request.include_content.unwrap_or(true);
        let mut scan = DefinitionScan { after, ..DefinitionScan::for_kind(kind) };
        let mut entries = Vec::new();
        while let Some(entry) = self.next_definition(ctx, &mut scan).await? {
            let text = request.q.as_deref().unwrap_or_default();
            if !entry.path.as_str().contains(text) {
                continue;
            }
            if entries.len() == limit {
                let last: Option<&CatalogListEntry> = entries.last();
                let next_cursor = last.map(|last| Text::from(&last.path));
                return Ok(CatalogList { entries, next_cursor });
            }
            entries.push(to_list_entry(entry, include_content));
        }
        Ok(CatalogList { entries, next_cursor: None })
    }

    /// Returns a page of all versions of definitions, ordered by path, newest version first.
    async fn list_all_versions(
        &self,
        ctx: &CallContext,
        request: CatalogListRequest,
    ) -> Result<CatalogList> {
        let limit = request.limit.unwrap_or(PageLimit::MAX);
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let position = request.cursor.as_deref().map(parse_version_cursor).transpose()?;
        // Callers can send arbitrary cursors.
        if let Some((path, _)) = &position
            && !ctx.auth.can_see_path(Some(path))
        {
            return Err(RuntimeError::invalid_cursor());
        }
        let kind: Option<Text> = request.resource_type.map(|kind| kind.to_lowercase().into());
        let mut scan = DefinitionScan {
            after: position.as_ref().map(|(path, _)| path.clone()),
            ..DefinitionScan::for_kind(kind.clone())
        };
        // One more entry than requested shows whether there is a next page.
        let mut entries = Vec::new();
        if let Some((path, version)) = position {
            entries = self.versions_before(ctx, &path, Some(version), limit + 1).await?;
        }
        while entries.len() <= limit
            && let Some(newest) = self.next_definition(ctx, &mut scan).await?
        {
            let text = request.q.as_deref().unwrap_or_default();
            if newest.path.as_str().contains(text) {
                let remaining = limit + 1 - entries.len();
                entries.extend(self.versions_before(ctx, &newest.path, None, remaining).await?);
            }
        }
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().filter(|_| has_more);
        let include_content = request.include_content.unwrap_or(true);
        Ok(CatalogList {
            next_cursor: last.map(|last| format!("{}:{}", last.version, last.path).into()),
            entries: entries
                .into_iter()
                .map(|entry| to_list_entry(entry, include_content))
                .collect(),
        })
    }

    /// Returns up to `count` versions of a definition, newest first.
    async fn versions_before(
        &self,
        ctx: &CallContext,
        path: &PlaybookPath,
        mut before: Option<u32>,
        count: usize,
    ) -> Result<Vec<CatalogEntry>> {
        let mut entries: Vec<CatalogEntry> = Vec::new();
        while entries.len() < count {
            let remaining = i64::try_from(count - entries.len()).unwrap_or(i64::MAX);
            let limit = PageLimit::clamped(remaining);
            let filter = CatalogVersionFilter {
                tenant_id: ctx.tenant().clone(),
                path: path.clone(),
                before,
                limit,
            };
            let page = self.infra.store().list_catalog_versions(filter).await?;
            let is_last = page.len() < usize::try_from(limit.get()).unwrap_or(usize::MAX);
            before = page.last().map(|last| last.version);
            entries.extend(page);
            if is_last {
                break;
            }
        }
        Ok(entries)
    }

    /// Lists the paths of the definitions of a kind.
    pub async fn definition_paths(
        &self,
        ctx: &CallContext,
        kind: &str,
    ) -> Result<Vec<PlaybookPath>> {
        let mut scan = DefinitionScan::for_kind(Some(kind.to_lowercase().into()));
        let mut paths = Vec::new();
        while let Some(entry) = self.next_definition(ctx, &mut scan).await? {
            paths.push(entry.path);
        }
        Ok(paths)
    }

    /// Lists the agent definitions that have all requested capabilities.
    pub async fn find_agents(
        &self,
        ctx: &CallContext,
        request: AgentListRequest,
    ) -> Result<CatalogList> {
        let required = request.capabilities.unwrap_or_default();
        let mut scan = DefinitionScan::for_kind(Some(AGENT_KIND.into()));
        let mut entries = Vec::new();
        while let Some(entry) = self.next_definition(ctx, &mut scan).await? {
            let declared = agent_capabilities(&entry.content);
            if required.iter().all(|capability| declared.contains(capability)) {
                entries.push(to_list_entry(entry, true));
            }
        }
        Ok(CatalogList { entries, next_cursor: None })
    }

    async fn next_definition(
        &self,
        ctx: &CallContext,
        scan: &mut DefinitionScan,
    ) -> Result<Option<CatalogEntry>> {
        // A page may contain nothing that the caller can see.
        while scan.page.is_empty() && !scan.is_last && scan.scanned < MAX_SCANNED_DEFINITIONS {
            let filter = CatalogFilter {
                tenant_id: ctx.tenant().clone(),
                kind: scan.kind.clone(),
                include_archived: false,
                after: scan.after.clone(),
                limit: PageLimit::MAX,
            };
            let page = self.infra.store().list_catalog(filter).await?;
            let page_size = usize::try_from(PageLimit::MAX.get()).unwrap_or(usize::MAX);
            scan.is_last = page.len() < page_size;
            scan.scanned += page.len();
            scan.after = page.last().map(|last| last.path.clone());
            scan.page = page.into_iter().filter(|entry| can_see_definition(ctx, entry)).collect();
        }
        Ok(scan.page.pop_front())
    }

    /// Finds a definition by its id or its path.
    pub(crate) async fn find_definition(
        &self,
        ctx: &CallContext,
        name: &str,
    ) -> Result<CatalogEntry> {
        let tenant = ctx.tenant();
        if let Ok(id) = name.parse::<CatalogId>() {
            let entry = self.infra.store().find_catalog_entry(tenant, CatalogKey::Id(id));
            if let Some(entry) = entry.await?.filter(|entry| can_see_definition(ctx, entry)) {
                return Ok(entry);
            }
        }
        let path = PlaybookPath::new(name).map_err(|_| RuntimeError::no_definition())?;
        let key = CatalogKey::Latest(path);
        let entry = self.infra.store().find_catalog_entry(tenant, key).await?;
        let entry = entry.filter(|entry| can_see_definition(ctx, entry));
        entry.ok_or_else(RuntimeError::no_definition)
    }

    /// Returns the text of a definition.
    pub async fn definition_content(
        &self,
        ctx: &CallContext,
        name: &str,
    ) -> Result<PlaybookContent> {
        let entry = self.find_definition(ctx, name).await?;
        Ok(PlaybookContent { content: entry.content, path: entry.path, version: entry.version })
    }

    /// Registers a text as the next version of a definition.
    pub async fn replace_definition_content(
        &self,
        ctx: &CallContext,
        name: &str,
        request: ContentRequest,
        is_admin: bool,
    ) -> Result<RegisterResponse> {
        let entry = self.find_definition(ctx, name).await?;
        let dry_run =
            RegisterRequest { content: request.content, resource_type: None, dry_run: true };
        let preview = self.register_with_role(ctx, dry_run.clone(), is_admin).await?;
        if preview.path != entry.path {
            let text = format!("the text defines `{}`, not `{}`", preview.path, entry.path);
            return Err(RuntimeError::invalid(text));
        }
        let request = RegisterRequest { dry_run: false, ..dry_run };
        self.register_with_role(ctx, request, is_admin).await
    }

    /// Checks a text and returns all diagnostics.
    pub async fn validate_content(
        &self,
        ctx: &CallContext,
        request: ContentRequest,
    ) -> Result<ValidationReport> {
        let diagnostics = self.check_content(ctx, request.content).await?.1.diagnostics;
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let errors: Vec<Text> = errors
            .map(|diagnostic| {
                let (code, message) = (diagnostic.code.as_str(), &diagnostic.message);
                format!("{}:{}: {code} {message}", diagnostic.line, diagnostic.column).into()
            })
            .collect();
        Ok(ValidationReport {
            valid: errors.is_empty(),
            errors,
            diagnostics: diagnostics.iter().map(diagnostic_to_json).collect(),
        })
    }

    /// Archives a definition, unless it has live executions.
    pub async fn archive_definition(
        &self,
        ctx: &CallContext,
        name: &str,
    ) -> Result<ArchiveResponse> {
        let path = self.find_definition(ctx, name).await?.path;
        ctx.auth.check_path_change(&path)?;
        for status in [ExecutionStatus::Pending, ExecutionStatus::Running, ExecutionStatus::Paused]
        {
            let filter = ExecutionFilter {
                tenant_id: ctx.tenant().clone(),
                status: Some(status),
                path: Some(path.clone()),
                parent_execution_id: None,
                after: None,
                limit: PageLimit::MIN,
            };
            let page = self.infra.store().list_executions(filter).await?;
            if let Some(execution) = page.executions.first() {
                let text =
                    format!("execution {} of `{path}` is still running", execution.execution_id);
                return Err(RuntimeError::refused(ErrorCode::InFlight, text));
            }
        }
        let now = Some(self.infra.now());
        let tenant = ctx.tenant();
        self.infra.store().set_definition_archived(tenant, &path, now).await?;
        Ok(ArchiveResponse {
            status: "archived".into(),
            message: format!("`{path}` is archived; no new execution can start").into(),
            path,
        })
    }

    /// Restores an archived definition.
    pub async fn restore_definition(
        &self,
        ctx: &CallContext,
        path: PlaybookPath,
    ) -> Result<ArchiveResponse> {
        self.find_definition(ctx, path.as_str()).await?;
        ctx.auth.check_path_change(&path)?;
        let tenant = ctx.tenant();
        self.infra.store().set_definition_archived(tenant, &path, None).await?;
        Ok(ArchiveResponse {
            status: "active".into(),
            message: format!("`{path}` can be run again").into(),
            path,
        })
    }

    /// Lists the versions of a definition, newest first.
    pub async fn definition_versions(
        &self,
        ctx: &CallContext,
        path: PlaybookPath,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<CatalogList> {
        let before = parse_cursor(cursor)?;
        self.find_definition(ctx, path.as_str()).await?;
        let filter = CatalogVersionFilter { tenant_id: ctx.tenant().clone(), path, before, limit };
        let versions = self.infra.store().list_catalog_versions(filter).await?;
        let is_full = versions.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = versions.last().filter(|last| is_full && last.version > 1);
        let next_cursor = last.map(|last| last.version.to_string().into());
        let entries: Vec<CatalogListEntry> =
            versions.into_iter().map(|entry| to_list_entry(entry, false)).collect();
        Ok(CatalogList { entries, next_cursor })
    }
}

/// Scan over the definitions.
struct DefinitionScan {
    kind: Option<Text>,
    after: Option<PlaybookPath>,
    page: std::collections::VecDeque<CatalogEntry>,
    is_last: bool,
    scanned: usize,
}

impl DefinitionScan {
    fn for_kind(kind: Option<Text>) -> Self {
        Self {
            kind,
            after: None,
            page: std::collections::VecDeque::new(),
            is_last: false,
            scanned: 0,
        }
    }
}

pub(crate) fn to_list_entry(entry: CatalogEntry, include_content: bool) -> CatalogListEntry {
    CatalogListEntry {
        catalog_id: entry.catalog_id,
        path: entry.path,
        kind: entry.kind,
        version: entry.version,
        content: include_content.then_some(entry.content),
        layout: None,
        payload: None,
        meta: entry.meta,
        created_at: entry.created_at,
        status: match entry.archived_at {
            None => "active".into(),
            Some(_) => "archived".into(),
        },
    }
}

/// Capabilities that an agent declares.
fn agent_capabilities(content: &str) -> Vec<Text> {
    let document = to_json(content).unwrap_or_default();
    let metadata = document.get("metadata");
    let declared = metadata
        .and_then(|metadata| metadata.get("capabilities"))
        .or_else(|| document.get("capabilities"));
    let declared = declared.and_then(Json::as_list).unwrap_or_default();
    declared.iter().filter_map(Json::as_str).map(Text::from).collect()
}

fn to_batch_result(index: u32, registered: Result<RegisterResponse>) -> RegisterBatchResult {
    match registered {
        Ok(response) => RegisterBatchResult {
            index,
            status: "registered".into(),
            path: Some(response.path),
            version: response.version,
            catalog_id: response.catalog_id,
            error: None,
        },
        Err(error) => {
            let problem = error.into_problem();
            let first = problem.errors.first().map(|error| {
                let line = error.line.unwrap_or(0);
                format!("{} (line {line}: {})", problem.detail, error.message)
            });
            RegisterBatchResult {
                index,
                status: "error".into(),
                path: None,
                version: None,
                catalog_id: None,
                error: Some(first.map_or(problem.detail, Text::from)),
            }
        }
    }
}

/// True if the caller can see a definition of its tenant.
fn can_see_definition(ctx: &CallContext, entry: &CatalogEntry) -> bool {
    ctx.auth.can_see_path(Some(&entry.path))
}
