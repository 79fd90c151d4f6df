//! Registration and lookup of definitions.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_api::Problem;
use noetl_api::catalog::{
    CatalogResource, CatalogResourceRequest, RegisterRequest, RegisterResponse,
};
use noetl_engine::Plan;
use noetl_playbook::{
    CatalogNames, CheckOptions, CheckReport, Code, Diagnostic, Document, Severity, check,
    find_references,
};
use noetl_store::{CatalogEntry, CatalogKey, CredentialKey, NewCatalogEntry, TenantTable};
use noetl_types::{Digest, ErrorCode, Json, PlaybookPath, Scope, TenantId, Text, sha256};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Catalog;
use crate::services::catalog::catalog_key;
use crate::services::catalog::definition::NotRunnable;

impl Catalog {
    /// Checks a definition in full and registers it, unless the request is a dry run.
    pub async fn register_definition(
        &self,
        ctx: &CallContext,
        request: RegisterRequest,
    ) -> Result<RegisterResponse> {
        self.register_with_role(ctx, request, false).await
    }

    /// Registers a definition for an admin, who may also change the platform's own.
    pub async fn register_definition_as_admin(
        &self,
        ctx: &CallContext,
        request: RegisterRequest,
    ) -> Result<RegisterResponse> {
        self.register_with_role(ctx, request, true).await
    }

    /// Registers a definition with or without admin rights.
    pub async fn register_with_role(
        &self,
        ctx: &CallContext,
        request: RegisterRequest,
        is_admin: bool,
    ) -> Result<RegisterResponse> {
        let is_dry_run = request.dry_run;
        let (content, checked) = self.check_content(ctx, request.content).await?;
        let document = CheckedDocument::from_report(content, checked)?;
        if document.path.is_system() && !is_admin {
            return Err(RuntimeError::forbidden(
                "only an admin may register definitions under `system/`",
            ));
        }
        ctx.auth.check_path_access(&document.path)?;
        if is_dry_run {
            self.preview_registration(ctx, document).await
        } else {
            self.store_definition(ctx, document).await
        }
    }

    async fn store_definition(
        &self,
        ctx: &CallContext,
        document: CheckedDocument,
    ) -> Result<RegisterResponse> {
        // The server registers the platform's own playbooks when it starts.
        let is_platform = document.path.is_system() && *ctx.tenant() == TenantId::default();
        if !is_platform && self.find_unchanged(ctx, &document).await?.is_none() {
            self.infra.check_row_limit(ctx.tenant(), TenantTable::Definitions).await?;
        }
        let entry = NewCatalogEntry {
            catalog_id: self.infra.mint_id()?,
            tenant_id: ctx.tenant().clone(),
            path: document.path.clone(),
            kind: document.kind.clone(),
            content: document.content.clone(),
            sha256: document.sha256,
            meta: None,
            now: self.infra.now(),
        };
        let registered = self.infra.store().register_definition(entry).await?;
        let version = registered.entry.version;
        let message = if registered.is_unchanged {
            format!("`{}` is already version {version}", document.path)
        } else {
            format!("`{}` is registered as version {version}", document.path)
        };
        let entry = Some(&registered.entry);
        Ok(document.into_register_response(message, entry, registered.is_unchanged))
    }

    /// Returns the newest version at the path of a document if it has the same content.
    async fn find_unchanged(
        &self,
        ctx: &CallContext,
        document: &CheckedDocument,
    ) -> Result<Option<CatalogEntry>> {
        let key = CatalogKey::Latest(document.path.clone());
        let newest = self.infra.store().find_catalog_entry(ctx.tenant(), key).await?;
        let is_same =
            |entry: &CatalogEntry| entry.sha256 == document.sha256 && entry.kind == document.kind;
        Ok(newest.filter(is_same))
    }

    /// Returns the outcome that a registration would have.
    async fn preview_registration(
        &self,
        ctx: &CallContext,
        document: CheckedDocument,
    ) -> Result<RegisterResponse> {
        let newest = self.find_unchanged(ctx, &document).await?;
        let message = format!("`{}` can be registered; nothing was written", document.path);
        let is_unchanged = newest.is_some();
        Ok(document.into_register_response(message, newest.as_ref(), is_unchanged))
    }

    /// Returns a definition by id, or by path and version.
    pub async fn catalog_item(
        &self,
        ctx: &CallContext,
        request: CatalogResourceRequest,
    ) -> Result<CatalogResource> {
        let key = match (request.catalog_id, request.path) {
            (Some(id), _) => CatalogKey::Id(id),
            (None, Some(path)) => catalog_key(&path, request.version.as_ref())?,
            (None, None) => {
                return Err(RuntimeError::invalid("catalog_id or path is required"));
            }
        };
        let entry = self.infra.store().find_catalog_entry(ctx.tenant(), key).await?;
        let entry = entry.filter(|entry| ctx.auth.can_see_path(Some(&entry.path)));
        let entry = entry.ok_or_else(RuntimeError::no_definition)?;
        Ok(CatalogResource {
            catalog_id: entry.catalog_id,
            path: entry.path,
            kind: entry.kind,
            version: entry.version,
            content: entry.content,
            sha256: entry.sha256.to_string().into(),
            created_at: entry.created_at,
        })
    }
}

/// Maximum references of a document that are looked up.
const MAX_CHECKED_REFERENCES: usize = 100;

impl Catalog {
    /// Decodes and checks a document, with its references to other entries that the caller can see.
    pub(crate) async fn check_content(
        &self,
        ctx: &CallContext,
        content: String,
    ) -> Result<(Arc<str>, CheckReport)> {
        let content: Arc<str> = decode_content(content).into();
        let checked = check_on_thread(Arc::clone(&content), CatalogNames::default()).await?;
        if let Some(Document::Playbook(playbook)) = &checked.document {
            let named = find_references(playbook);
            let existing = self.find_existing(ctx, &named, playbook.path()).await?;
            if existing != named {
                let checked = check_on_thread(Arc::clone(&content), existing).await?;
                return Ok((content, checked));
            }
        }
        Ok((content, checked))
    }

    /// Returns the references to entries that exist, or that the caller cannot see.
    async fn find_existing(
        &self,
        ctx: &CallContext,
        named: &CatalogNames,
        own_path: &str,
    ) -> Result<CatalogNames> {
        let store = self.infra.store();
        let mut existing = named.clone();
        let playbooks = named.playbooks.iter().flatten().take(MAX_CHECKED_REFERENCES);
        for name in playbooks.filter(|name| *name != own_path) {
            let path = PlaybookPath::new(&**name).ok();
            if let Some(path) = path.filter(|path| ctx.auth.can_see_path(Some(path)))
                && store.find_catalog_entry(ctx.tenant(), CatalogKey::Latest(path)).await?.is_none()
                && let Some(names) = &mut existing.playbooks
            {
                names.remove(name);
            }
        }
        let is_visible = ctx.auth.allows_scope(Scope::CredUse) && !ctx.auth.is_path_restricted();
        let credentials = named.credentials.iter().flatten().filter(|_| is_visible);
        for name in credentials.take(MAX_CHECKED_REFERENCES) {
            let key = CredentialKey::Name(Text::from(&**name));
            if store.find_credential(ctx.tenant(), &key).await?.is_none()
                && let Some(names) = &mut existing.credentials
            {
                names.remove(name);
            }
        }
        Ok(existing)
    }
}

/// Checks a document on a blocking thread, because a document of the maximum size would delay other
/// requests.
async fn check_on_thread(content: Arc<str>, catalog: CatalogNames) -> Result<CheckReport> {
    let checking = tokio::task::spawn_blocking(move || {
        check(&content, &CheckOptions { catalog, ..CheckOptions::for_this_build() })
    });
    checking.await.map_err(|error| {
        tracing::error!(%error, "the check of a document failed");
        RuntimeError::internal("the document could not be checked")
    })
}

/// Returns the text of a document that may be base64-encoded.
///
/// The two forms cannot be confused: base64 contains no colon, brace or space, and without these a
/// text is not a YAML map and so not a valid document.
fn decode_content(content: String) -> String {
    let compact: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64_STANDARD
        .decode(compact)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or(content)
}

/// A document that passed all checks.
struct CheckedDocument {
    path: PlaybookPath,
    kind: Text,
    content: Text,
    sha256: Digest,
    warnings: Vec<Json>,
}

impl CheckedDocument {
    fn from_report(content: Arc<str>, checked: CheckReport) -> Result<Self> {
        let (errors, others): (Vec<Diagnostic>, Vec<Diagnostic>) = checked
            .diagnostics
            .into_iter()
            .partition(|diagnostic| diagnostic.severity == Severity::Error);
        if errors.iter().any(|diagnostic| diagnostic.code == Code::NP001) {
            let mut problem = NotRunnable::Errors(errors).into_error().into_problem();
            problem =
                Problem::new(ErrorCode::YamlSyntax, problem.detail).with_errors(problem.errors);
            return Err(problem.into());
        }
        let Some(document) = checked.document.filter(|_| errors.is_empty()) else {
            return Err(NotRunnable::Errors(errors).into_error());
        };
        let (kind, path) = document_kind_and_path(document)?;
        Ok(Self {
            path: PlaybookPath::new(path)
                .map_err(|error| RuntimeError::invalid(error.to_string()))?,
            kind: kind.to_lowercase().into(),
            sha256: sha256(&*content),
            content: Text::new(content)
                .map_err(|error| RuntimeError::invalid(error.to_string()))?,
            warnings: others.iter().map(diagnostic_to_json).collect(),
        })
    }

    fn into_register_response(
        self,
        message: String,
        entry: Option<&CatalogEntry>,
        is_unchanged: bool,
    ) -> RegisterResponse {
        RegisterResponse {
            status: "success".into(),
            message: message.into(),
            path: self.path,
            version: entry.map(|entry| entry.version),
            catalog_id: entry.map(|entry| entry.catalog_id),
            kind: self.kind,
            unchanged: is_unchanged,
            warnings: self.warnings,
        }
    }
}

/// Returns the kind and the path of a document. For a playbook, also checks that it can be planned.
fn document_kind_and_path(document: Document) -> Result<(Arc<str>, Arc<str>)> {
    match document {
        Document::Playbook(playbook) => {
            let kind_and_path = (Arc::clone(&playbook.kind), Arc::clone(playbook.path()));
            Plan::new(Arc::from(playbook))
                .map_err(|error| NotRunnable::Plan(error).into_error())?;
            Ok(kind_and_path)
        }
        Document::Other(other) => {
            let path = other.path.ok_or_else(|| {
                RuntimeError::invalid("metadata.path or metadata.name is required")
            })?;
            Ok((other.kind, path))
        }
    }
}

/// Converts a diagnostic to JSON for the API.
pub(crate) fn diagnostic_to_json(diagnostic: &Diagnostic) -> Json {
    Json::object([
        ("code", Json::from(diagnostic.code.as_str())),
        ("severity", Json::from(diagnostic.severity.to_string())),
        ("message", Json::from(diagnostic.message.as_str())),
        ("line", Json::from(diagnostic.line)),
        ("column", Json::from(diagnostic.column)),
        ("end_line", Json::from(diagnostic.end_line)),
        ("end_column", Json::from(diagnostic.end_column)),
        ("hint", Json::from(diagnostic.hint.as_deref())),
    ])
}

#[cfg(test)]
mod tests;
