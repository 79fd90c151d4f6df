//! Definitions: registered after they were checked, and looked up.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_api::Problem;
use noetl_api::catalog::{CatalogItem, RegisterAnswer, RegisterRequest, ResourceRequest};
use noetl_engine::Plan;
use noetl_playbook::{CheckOptions, Code, Diagnostic, Document, Severity, check};
use noetl_store::{CatalogEntry, CatalogKey, NewCatalogEntry};
use noetl_types::{Digest, ErrorCode, Json, PlaybookPath, Text, sha256};

use crate::runtime::{NotRunnable, Runtime, RuntimeError, catalog_key};

impl Runtime {
    /// Checks a definition in full and registers it, unless it is only to be checked.
    pub async fn register_definition(
        &self,
        request: RegisterRequest,
    ) -> Result<RegisterAnswer, RuntimeError> {
        let is_dry_run = request.dry_run;
        let draft = checked(request).await?;
        if draft.path.is_of_platform() {
            return Err(RuntimeError::refused(
                ErrorCode::Forbidden,
                "only an admin may register definitions under `system/`",
            ));
        }
        self.take_in(draft, is_dry_run).await
    }

    /// The same for an admin, who may change what the system itself runs.
    pub async fn register_any_definition(
        &self,
        request: RegisterRequest,
    ) -> Result<RegisterAnswer, RuntimeError> {
        let is_dry_run = request.dry_run;
        let draft = checked(request).await?;
        self.take_in(draft, is_dry_run).await
    }

    async fn take_in(
        &self,
        draft: Draft,
        is_dry_run: bool,
    ) -> Result<RegisterAnswer, RuntimeError> {
        self.behalf().check_path(&draft.path)?;
        if is_dry_run {
            self.rehearse(draft).await
        } else {
            self.register_draft(draft).await
        }
    }

    async fn register_draft(&self, draft: Draft) -> Result<RegisterAnswer, RuntimeError> {
        let entry = NewCatalogEntry {
            catalog_id: self.mint()?,
            tenant_id: self.tenant().clone(),
            path: draft.path.clone(),
            kind: draft.kind.clone(),
            content: draft.content.clone(),
            sha256: draft.sha256,
            meta: None,
            now: self.now(),
        };
        let registered = self.store().register(entry).await?;
        let version = registered.entry.version;
        let message = if registered.is_unchanged {
            format!("`{}` is version {version} already", draft.path)
        } else {
            format!("`{}` is registered as version {version}", draft.path)
        };
        let entry = Some(&registered.entry);
        Ok(draft.answer(message, entry, registered.is_unchanged))
    }

    /// What a registration would come to.
    async fn rehearse(&self, draft: Draft) -> Result<RegisterAnswer, RuntimeError> {
        let key = CatalogKey::Latest(draft.path.clone());
        let newest = self
            .store()
            .catalog_entry(self.tenant(), key)
            .await?
            .filter(|entry| entry.sha256 == draft.sha256 && entry.kind == draft.kind);
        let message = format!("`{}` can be registered; nothing was written", draft.path);
        let is_unchanged = newest.is_some();
        Ok(draft.answer(message, newest.as_ref(), is_unchanged))
    }

    /// A definition, by id or by path and version.
    pub async fn catalog_item(
        &self,
        request: ResourceRequest,
    ) -> Result<CatalogItem, RuntimeError> {
        let key = match (request.catalog_id, request.path) {
            (Some(id), _) => CatalogKey::Id(id),
            (None, Some(path)) => catalog_key(&path, request.version.as_ref())?,
            (None, None) => {
                return Err(RuntimeError::refused(
                    ErrorCode::Validation,
                    "neither catalog_id nor path says which definition is meant",
                ));
            }
        };
        let entry = self.store().catalog_entry(self.tenant(), key).await?;
        let entry = entry.filter(|entry| self.behalf().sees(Some(&entry.path)));
        let entry = entry.ok_or_else(RuntimeError::no_definition)?;
        Ok(CatalogItem {
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

/// Checks a document, beside other requests: one of the largest size takes longer than they should
/// wait.
async fn checked(request: RegisterRequest) -> Result<Draft, RuntimeError> {
    let checking = tokio::task::spawn_blocking(move || Draft::read(decoded(request.content)));
    match checking.await {
        Ok(draft) => draft,
        Err(error) => {
            tracing::error!(%error, "the check of a document failed");
            Err(RuntimeError::refused(
                ErrorCode::Internal,
                "the document could not be checked",
            ))
        }
    }
}

/// The text of a document that may have come as base64.
///
/// No document is both: one without a colon, a brace or a blank is no map, so no document either.
pub(super) fn decoded(content: String) -> String {
    let packed: Vec<u8> = content
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    BASE64_STANDARD
        .decode(packed)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or(content)
}

/// A document that was checked and found well.
struct Draft {
    path: PlaybookPath,
    kind: Text,
    content: Text,
    sha256: Digest,
    warnings: Vec<Json>,
}

impl Draft {
    fn read(content: String) -> Result<Self, RuntimeError> {
        let checked = check(&content, &CheckOptions::default());
        let (errors, others): (Vec<Diagnostic>, Vec<Diagnostic>) = checked
            .diagnostics
            .into_iter()
            .partition(|found| found.severity == Severity::Error);
        if errors.iter().any(|found| found.code == Code::NP001) {
            let mut problem = NotRunnable::Errors(errors).into_error().into_problem();
            problem =
                Problem::new(ErrorCode::YamlSyntax, problem.detail).with_errors(problem.errors);
            return Err(problem.into());
        }
        let Some(document) = checked.document.filter(|_| errors.is_empty()) else {
            return Err(NotRunnable::Errors(errors).into_error());
        };
        let (kind, path) = name_of(document)?;
        Ok(Self {
            path: PlaybookPath::new(path)
                .map_err(|error| RuntimeError::refused(ErrorCode::Validation, error.to_string()))?,
            kind: kind.to_lowercase().into(),
            sha256: sha256(&content),
            content: Text::new(content)
                .map_err(|error| RuntimeError::refused(ErrorCode::Validation, error.to_string()))?,
            warnings: others.iter().map(warning).collect(),
        })
    }

    fn answer(
        self,
        message: String,
        entry: Option<&CatalogEntry>,
        is_unchanged: bool,
    ) -> RegisterAnswer {
        RegisterAnswer {
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

/// The kind of a document and where it goes. A playbook must be one that can be planned.
fn name_of(document: Document) -> Result<(Arc<str>, Arc<str>), RuntimeError> {
    let (kind, metadata) = match document {
        Document::Playbook(playbook) => {
            let named = (Arc::clone(&playbook.kind), playbook.metadata.clone());
            Plan::new(Arc::from(playbook))
                .map_err(|error| NotRunnable::Plan(error).into_error())?;
            named
        }
        Document::Subscription(subscription) => (subscription.kind, subscription.metadata),
        Document::Schedule(schedule) => (schedule.kind, schedule.metadata),
        Document::Other(other) => {
            let path = other.path.ok_or_else(|| {
                RuntimeError::refused(
                    ErrorCode::Validation,
                    "neither metadata.path nor metadata.name says where it goes",
                )
            })?;
            return Ok((other.kind, path));
        }
    };
    Ok((kind, metadata.path.unwrap_or(metadata.name)))
}

/// A finding, as the API tells it.
pub(super) fn warning(found: &Diagnostic) -> Json {
    Json::object([
        ("code", Json::from(found.code.as_str())),
        ("severity", Json::from(found.severity.to_string())),
        ("message", Json::from(found.message.as_str())),
        ("line", Json::from(found.line)),
        ("column", Json::from(found.column)),
        ("end_line", Json::from(found.end_line)),
        ("end_column", Json::from(found.end_column)),
        ("hint", Json::from(found.hint.as_deref())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_plain_or_packed() {
        let plain = "kind: Tool\nmetadata: {name: x}\n";
        assert_eq!(decoded(plain.to_owned()), plain);
        let packed = BASE64_STANDARD.encode(plain);
        assert_eq!(decoded(packed.clone()), plain);
        let (head, tail) = packed.split_at(8);
        assert_eq!(decoded(format!("{head}\r\n{tail}\n")), plain);
    }
}
