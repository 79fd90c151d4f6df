//! Definitions in lists, their texts, and what a check says of one.

use noetl_api::catalog::{
    AgentsRequest, CatalogLine, CatalogList, Content, ContentRequest, ListRequest, RegisterAnswer,
    RegisterBatch, RegisterBatchAnswer, RegisterRequest, RegisterVerdict, Validation,
};
use noetl_playbook::{CheckOptions, Severity, check, to_json};
use noetl_store::{CatalogEntry, CatalogFilter, CatalogKey, VersionFilter};
use noetl_types::limits::{MAX_REGISTER_BATCH, PageLimit};
use noetl_types::{CatalogId, ErrorCode, Json, PlaybookPath, Text};

use super::catalog::{decoded, warning};
use crate::runtime::{Runtime, RuntimeError};

/// Definitions that one list looks at.
const MAX_SCANNED: usize = 10_000;
const AGENT: &str = "agent";

fn foreign_cursor() -> RuntimeError {
    let text = "the cursor is not one that this list gave";
    RuntimeError::refused(ErrorCode::BadQuery, text)
}

/// The version where a page of all versions ended.
fn read_place(cursor: &str) -> Result<(PlaybookPath, u32), RuntimeError> {
    let (version, path) = cursor.split_once(':').ok_or_else(foreign_cursor)?;
    let path = PlaybookPath::new(path).map_err(|_| foreign_cursor())?;
    let version = version.parse().map_err(|_| foreign_cursor())?;
    Ok((path, version))
}

impl Runtime {
    /// Registers many definitions. Each stands for itself.
    pub async fn register_definitions(
        &self,
        batch: RegisterBatch,
        is_admin: bool,
    ) -> Result<RegisterBatchAnswer, RuntimeError> {
        if batch.items.len() > MAX_REGISTER_BATCH {
            let text = format!("a call registers at most {MAX_REGISTER_BATCH} definitions");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let mut answer = RegisterBatchAnswer {
            registered: 0,
            failed: 0,
            results: Vec::with_capacity(batch.items.len()),
        };
        for (index, item) in (0..).zip(batch.items) {
            let registered = self.register_as(item, is_admin).await;
            let is_registered = registered.is_ok();
            answer.registered += u32::from(is_registered);
            answer.failed += u32::from(!is_registered);
            answer.results.push(verdict(index, registered));
        }
        Ok(answer)
    }

    /// Registers a definition for somebody who may, or may not, change what the system runs.
    pub async fn register_as(
        &self,
        request: RegisterRequest,
        is_admin: bool,
    ) -> Result<RegisterAnswer, RuntimeError> {
        if is_admin {
            self.register_any_definition(request).await
        } else {
            self.register_definition(request).await
        }
    }

    /// A page of the definitions, in the order of their paths.
    pub async fn definitions(&self, request: ListRequest) -> Result<CatalogList, RuntimeError> {
        if request.latest_only == Some(false) {
            return self.all_definitions(request).await;
        }
        let wanted = request.limit.unwrap_or(PageLimit::MAX);
        let wanted = usize::try_from(wanted.get()).unwrap_or(usize::MAX);
        let after = request.cursor.as_deref().map(PlaybookPath::new);
        let after = after.transpose().map_err(|_| foreign_cursor())?;
        let kind = request.resource_type.map(|kind| kind.to_lowercase().into());
        let has_content = request.include_content.unwrap_or(true);
        let mut walk = Walk {
            after,
            ..Walk::of(kind)
        };
        let mut entries = Vec::new();
        while let Some(entry) = self.next_definition(&mut walk).await? {
            let text = request.q.as_deref().unwrap_or_default();
            if !entry.path.as_str().contains(text) {
                continue;
            }
            if entries.len() == wanted {
                let last: Option<&CatalogLine> = entries.last();
                let next_cursor = last.map(|last| Text::from(&last.path));
                return Ok(CatalogList {
                    entries,
                    next_cursor,
                });
            }
            entries.push(line(entry, has_content));
        }
        Ok(CatalogList {
            entries,
            next_cursor: None,
        })
    }

    /// A page of all versions of the definitions: in the order of their paths, the newest first.
    async fn all_definitions(&self, request: ListRequest) -> Result<CatalogList, RuntimeError> {
        let wanted = request.limit.unwrap_or(PageLimit::MAX);
        let wanted = usize::try_from(wanted.get()).unwrap_or(usize::MAX);
        let place = request.cursor.as_deref().map(read_place).transpose()?;
        // A cursor is whatever the caller sends.
        if let Some((path, _)) = &place
            && !self.behalf().sees(Some(path))
        {
            return Err(foreign_cursor());
        }
        let kind: Option<Text> = request.resource_type.map(|kind| kind.to_lowercase().into());
        let mut walk = Walk {
            after: place.as_ref().map(|(path, _)| path.clone()),
            ..Walk::of(kind.clone())
        };
        // One more than is wanted tells whether there is a next page.
        let mut found = Vec::new();
        if let Some((path, version)) = place {
            found = self
                .versions_before(&path, Some(version), wanted + 1)
                .await?;
        }
        while found.len() <= wanted
            && let Some(newest) = self.next_definition(&mut walk).await?
        {
            let text = request.q.as_deref().unwrap_or_default();
            if newest.path.as_str().contains(text) {
                let left = wanted + 1 - found.len();
                found.extend(self.versions_before(&newest.path, None, left).await?);
            }
        }
        let is_cut = found.len() > wanted;
        found.truncate(wanted);
        let last = found.last().filter(|_| is_cut);
        let has_content = request.include_content.unwrap_or(true);
        Ok(CatalogList {
            next_cursor: last.map(|last| format!("{}:{}", last.version, last.path).into()),
            entries: found
                .into_iter()
                .map(|entry| line(entry, has_content))
                .collect(),
        })
    }

    /// So many versions of a definition, the newest first.
    async fn versions_before(
        &self,
        path: &PlaybookPath,
        mut before: Option<u32>,
        wanted: usize,
    ) -> Result<Vec<CatalogEntry>, RuntimeError> {
        let mut found: Vec<CatalogEntry> = Vec::new();
        while found.len() < wanted {
            let left = i64::try_from(wanted - found.len()).unwrap_or(i64::MAX);
            let limit = PageLimit::clamped(left);
            let filter = VersionFilter {
                tenant_id: self.tenant().clone(),
                path: path.clone(),
                before,
                limit,
            };
            let page = self.store().catalog_versions(filter).await?;
            let is_last = page.len() < usize::try_from(limit.get()).unwrap_or(usize::MAX);
            before = page.last().map(|last| last.version);
            found.extend(page);
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// The paths of the definitions of a kind.
    pub async fn definition_paths(&self, kind: &str) -> Result<Vec<PlaybookPath>, RuntimeError> {
        let mut walk = Walk::of(Some(kind.to_lowercase().into()));
        let mut paths = Vec::new();
        while let Some(entry) = self.next_definition(&mut walk).await? {
            paths.push(entry.path);
        }
        Ok(paths)
    }

    /// The definitions of agents that can do all of what is asked for.
    pub async fn agents(&self, request: AgentsRequest) -> Result<CatalogList, RuntimeError> {
        let wanted = request.capabilities.unwrap_or_default();
        let mut walk = Walk::of(Some(AGENT.into()));
        let mut entries = Vec::new();
        while let Some(entry) = self.next_definition(&mut walk).await? {
            let can = capabilities(&entry.content);
            if wanted.iter().all(|wanted| can.contains(wanted)) {
                entries.push(line(entry, true));
            }
        }
        Ok(CatalogList {
            entries,
            next_cursor: None,
        })
    }

    async fn next_definition(&self, walk: &mut Walk) -> Result<Option<CatalogEntry>, RuntimeError> {
        // A page may hold nothing that the caller has.
        while walk.page.is_empty() && !walk.is_last && walk.scanned < MAX_SCANNED {
            let filter = CatalogFilter {
                tenant_id: self.tenant().clone(),
                kind: walk.kind.clone(),
                archived: false,
                after: walk.after.clone(),
                limit: PageLimit::MAX,
            };
            let page = self.store().catalog(filter).await?;
            let full = usize::try_from(PageLimit::MAX.get()).unwrap_or(usize::MAX);
            walk.is_last = page.len() < full;
            walk.scanned += page.len();
            walk.after = page.last().map(|last| last.path.clone());
            walk.page = page.into_iter().filter(|entry| self.has(entry)).collect();
        }
        Ok(walk.page.pop_front())
    }

    /// A definition by its path or its id, whichever a text is.
    pub(crate) async fn named_definition(&self, name: &str) -> Result<CatalogEntry, RuntimeError> {
        let tenant = self.tenant();
        if let Ok(id) = name.parse::<CatalogId>() {
            let found = self.store().catalog_entry(tenant, CatalogKey::Id(id));
            if let Some(entry) = found.await?.filter(|entry| self.has(entry)) {
                return Ok(entry);
            }
        }
        let path = PlaybookPath::new(name).map_err(|_| RuntimeError::no_definition())?;
        let key = CatalogKey::Latest(path);
        let found = self.store().catalog_entry(tenant, key).await?;
        let found = found.filter(|entry| self.has(entry));
        found.ok_or_else(RuntimeError::no_definition)
    }

    /// Whether a definition of the tenant is there for the caller.
    fn has(&self, entry: &CatalogEntry) -> bool {
        self.behalf().sees(Some(&entry.path))
    }

    /// The text of a playbook.
    pub async fn definition_content(&self, name: &str) -> Result<Content, RuntimeError> {
        let entry = self.named_definition(name).await?;
        Ok(Content {
            content: entry.content,
            path: entry.path,
            version: entry.version,
        })
    }

    /// Registers a text as the next version of a playbook.
    pub async fn replace_content(
        &self,
        name: &str,
        request: ContentRequest,
        is_admin: bool,
    ) -> Result<RegisterAnswer, RuntimeError> {
        let entry = self.named_definition(name).await?;
        let rehearsal = RegisterRequest {
            content: request.content,
            resource_type: None,
            dry_run: true,
        };
        let found = self.register_as(rehearsal.clone(), is_admin).await?;
        if found.path != entry.path {
            let text = format!(
                "the text is one of `{}`, not of `{}`",
                found.path, entry.path
            );
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let request = RegisterRequest {
            dry_run: false,
            ..rehearsal
        };
        self.register_as(request, is_admin).await
    }

    /// Checks a text and says all that was found.
    pub async fn validate(&self, request: ContentRequest) -> Result<Validation, RuntimeError> {
        let checking = tokio::task::spawn_blocking(move || {
            let content = decoded(request.content);
            check(&content, &CheckOptions::default()).diagnostics
        });
        let found = checking.await.map_err(|error| {
            tracing::error!(%error, "the check of a document failed");
            RuntimeError::refused(ErrorCode::Internal, "the document could not be checked")
        })?;
        let errors = found
            .iter()
            .filter(|found| found.severity == Severity::Error);
        let errors: Vec<Text> = errors
            .map(|found| {
                let (code, message) = (found.code.as_str(), &found.message);
                format!("{}:{}: {code} {message}", found.line, found.column).into()
            })
            .collect();
        Ok(Validation {
            valid: errors.is_empty(),
            errors,
            diagnostics: found.iter().map(warning).collect(),
        })
    }
}

/// A walk along the definitions.
struct Walk {
    kind: Option<Text>,
    after: Option<PlaybookPath>,
    page: std::collections::VecDeque<CatalogEntry>,
    is_last: bool,
    scanned: usize,
}

impl Walk {
    fn of(kind: Option<Text>) -> Self {
        Self {
            kind,
            after: None,
            page: std::collections::VecDeque::new(),
            is_last: false,
            scanned: 0,
        }
    }
}

pub(super) fn line(entry: CatalogEntry, has_content: bool) -> CatalogLine {
    CatalogLine {
        catalog_id: entry.catalog_id,
        path: entry.path,
        kind: entry.kind,
        version: entry.version,
        content: has_content.then_some(entry.content),
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

/// What an agent says that it can do.
fn capabilities(content: &str) -> Vec<Text> {
    let document = to_json(content).unwrap_or_default();
    let metadata = document.get("metadata");
    let told = metadata
        .and_then(|metadata| metadata.get("capabilities"))
        .or_else(|| document.get("capabilities"));
    let told = told.and_then(Json::as_list).unwrap_or_default();
    told.iter()
        .filter_map(Json::as_str)
        .map(Text::from)
        .collect()
}

fn verdict(index: u32, registered: Result<RegisterAnswer, RuntimeError>) -> RegisterVerdict {
    match registered {
        Ok(answer) => RegisterVerdict {
            index,
            status: "registered".into(),
            path: Some(answer.path),
            version: answer.version,
            catalog_id: answer.catalog_id,
            error: None,
        },
        Err(error) => {
            let problem = error.into_problem();
            let first = problem.errors.first().map(|found| {
                let place = found.line.unwrap_or(0);
                format!("{} (line {place}: {})", problem.detail, found.message)
            });
            RegisterVerdict {
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
