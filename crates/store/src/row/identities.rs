//! The tables of API tokens, sealed secrets and the audit log.

use noetl_types::{Json, PoolName, Scope, ScopeSet, Text};

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell, column_types};
use super::table::{ColumnKind, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, table};
use crate::model::{
    AnchorRow, ApiToken, AuditEntry, Credential, KeychainEntry, NewAuditEntry, SecretAuditDetails,
};

table! {
    TOKEN = "api_token": ApiToken {
        token_id: Int,
        tenant_id: Text,
        organization_id: Text,
        prefix: Text,
        sha256: Bytes,
        name: Text,
        scopes: Json,
        pools: Json,
        path_globs: Json,
        created_at: Time,
        created_by: Text,
        expires_at: Time,
        last_used_at: Time,
        revoked_at: Time,
        seal: Bytes,
    }
}

table! {
    CREDENTIAL = "credential": Credential {
        credential_id: Int,
        tenant_id: Text,
        name: Text,
        kind: Text,
        version: Int,
        sealed: Json,
        kid: Text,
        meta: Json,
        tags: Json,
        description: Text,
        created_at: Time,
        updated_at: Time,
    }
}

table! {
    KEYCHAIN = "keychain": KeychainEntry {
        keychain_id: Int,
        tenant_id: Text,
        cache_key: Text,
        name: Text,
        catalog_id: Int,
        scope: Text,
        execution_id: Int,
        version: Int,
        sealed: Json,
        kid: Text,
        auto_renew: Bool,
        created_at: Time,
        updated_at: Time,
        expires_at: Time,
    }
}

table! {
    ANCHOR = "anchor": AnchorRow {
        anchor_id: Int,
        content: Text,
    }
}

/// An audit entry.
pub(crate) static AUDIT: Table = Table {
    name: "audit",
    columns: &[
        ("audit_id", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("seq", ColumnKind::Int),
        ("occurred_at", ColumnKind::Time),
        ("actor", ColumnKind::Text),
        ("act", ColumnKind::Text),
        ("target", ColumnKind::Text),
        ("address", ColumnKind::Text),
        ("outcome", ColumnKind::Text),
        ("detail", ColumnKind::Json),
        ("chain", ColumnKind::Bytes),
        ("operation", ColumnKind::Text),
        ("credential", ColumnKind::Text),
        ("worker_id", ColumnKind::Text),
        ("execution_id", ColumnKind::Int),
        ("parent_execution_id", ColumnKind::Int),
        ("key_id", ColumnKind::Text),
    ],
};

column_types! {
    // Unknown scopes and invalid pool names are ignored, so they grant nothing.
    ScopeSet: |scopes| Json::list(scopes.iter().map(|scope| Json::from(scope.as_str()))).to_cell(),
        |cell| {
            let names = Vec::<Text>::from_cell(cell)?;
            Ok(names.iter().filter_map(|name| Scope::parse(name).ok()).collect())
        };
    Vec<PoolName>: |pools| Json::list(pools.iter().map(|pool| Json::from(pool.as_str()))).to_cell(),
        |cell| {
            let names = Vec::<Text>::from_cell(cell)?;
            Ok(names.iter().filter_map(|name| PoolName::new(name.as_str()).ok()).collect())
        };
    Vec<Text>: |texts| Json::list(texts.iter().cloned().map(Json::from)).to_cell(), |cell| {
        let list = Json::from_cell(cell)?;
        let items = list.as_list().unwrap_or_default().iter();
        Ok(items.filter_map(|item| Text::new(item.as_str()?).ok()).collect())
    };
}

impl ToRow for AuditEntry {
    fn to_row(&self) -> Vec<Cell> {
        let content = &self.content;
        let secret = content.secret.as_ref();
        cells![
            content.audit_id,
            content.tenant_id,
            self.seq,
            content.occurred_at,
            content.actor,
            content.action,
            content.target,
            content.address,
            content.outcome,
            content.detail,
            self.chain,
            secret.map(|secret| secret.operation),
            secret.and_then(|secret| secret.credential.clone()),
            secret.and_then(|secret| secret.worker_id.clone()),
            secret.and_then(|secret| secret.execution_id),
            secret.and_then(|secret| secret.parent_execution_id),
            secret.and_then(|secret| secret.key_id.clone()),
        ]
    }
}

impl FromRow for AuditEntry {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&AUDIT, cells);
        let (audit_id, tenant_id, seq) = (row.read_next()?, row.read_next()?, row.read_next()?);
        let content = NewAuditEntry {
            audit_id,
            tenant_id,
            occurred_at: row.read_next()?,
            actor: row.read_next()?,
            action: row.read_next()?,
            target: row.read_next()?,
            address: row.read_next()?,
            outcome: row.read_next()?,
            detail: row.read_next()?,
            secret: None,
        };
        let chain = row.read_next()?;
        let secret = match row.read_next()? {
            None => None,
            Some(operation) => Some(SecretAuditDetails {
                operation,
                credential: row.read_next()?,
                worker_id: row.read_next()?,
                execution_id: row.read_next()?,
                parent_execution_id: row.read_next()?,
                key_id: row.read_next()?,
            }),
        };
        Ok(Self { content: NewAuditEntry { secret, ..content }, seq, chain })
    }
}
