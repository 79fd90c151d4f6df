//! The tables of API tokens and the audit log.

use noetl_types::{Json, PoolName, Scope, ScopeSet, Text};

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell};
use super::table::{ColumnKind, CorruptRow, RowCells, RowReader, Table};
use crate::model::{ApiToken, AuditEntry, NewAuditEntry, SecretAuditDetails};

/// An API token.
pub(crate) static TOKEN: Table = Table {
    name: "api_token",
    columns: &[
        ("token_id", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("organization_id", ColumnKind::Text),
        ("prefix", ColumnKind::Text),
        ("sha256", ColumnKind::Bytes),
        ("name", ColumnKind::Text),
        ("scopes", ColumnKind::Json),
        ("pools", ColumnKind::Json),
        ("path_globs", ColumnKind::Json),
        ("created_at", ColumnKind::Time),
        ("created_by", ColumnKind::Text),
        ("expires_at", ColumnKind::Time),
        ("last_used_at", ColumnKind::Time),
        ("revoked_at", ColumnKind::Time),
    ],
};

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

impl ToCell for ScopeSet {
    fn to_cell(&self) -> Cell {
        Json::list(self.iter().map(|scope| Json::from(scope.as_str()))).to_cell()
    }
}

/// Ignores unknown scopes, which therefore grant nothing.
impl FromCell for ScopeSet {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let names = Vec::<Text>::from_cell(cell)?;
        Ok(names.iter().filter_map(|name| Scope::parse(name).ok()).collect())
    }
}

impl ToCell for Vec<Text> {
    fn to_cell(&self) -> Cell {
        Json::list(self.iter().cloned().map(Json::from)).to_cell()
    }
}

impl FromCell for Vec<Text> {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let list = Json::from_cell(cell)?;
        let items = list.as_list().unwrap_or_default().iter();
        let texts = items.filter_map(|item| Text::new(item.as_str()?).ok());
        Ok(texts.collect())
    }
}

impl ToCell for Vec<PoolName> {
    fn to_cell(&self) -> Cell {
        Json::list(self.iter().map(|pool| Json::from(pool.as_str()))).to_cell()
    }
}

/// Ignores invalid pool names, which therefore grant nothing.
impl FromCell for Vec<PoolName> {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let names = Vec::<Text>::from_cell(cell)?;
        let pools = names.iter().filter_map(|name| PoolName::new(name.as_str()).ok());
        Ok(pools.collect())
    }
}

pub(crate) fn encode_token(token: &ApiToken) -> Vec<Cell> {
    cells![
        token.token_id,
        token.tenant_id,
        token.organization_id,
        token.prefix,
        token.sha256,
        token.name,
        token.scopes,
        token.pools,
        token.path_globs,
        token.created_at,
        token.created_by,
        token.expires_at,
        token.last_used_at,
        token.revoked_at,
    ]
}

pub(crate) fn decode_token(cells: RowCells<'_>) -> Result<ApiToken, CorruptRow> {
    let mut row = RowReader::new(&TOKEN, cells);
    Ok(ApiToken {
        token_id: row.read_next()?,
        tenant_id: row.read_next()?,
        organization_id: row.read_next()?,
        prefix: row.read_next()?,
        sha256: row.read_next()?,
        name: row.read_next()?,
        scopes: row.read_next()?,
        pools: row.read_next()?,
        path_globs: row.read_next()?,
        created_at: row.read_next()?,
        created_by: row.read_next()?,
        expires_at: row.read_next()?,
        last_used_at: row.read_next()?,
        revoked_at: row.read_next()?,
    })
}

pub(crate) fn encode_audit_entry(entry: &AuditEntry) -> Vec<Cell> {
    let content = &entry.content;
    let secret = content.secret.as_ref();
    cells![
        content.audit_id,
        content.tenant_id,
        entry.seq,
        content.occurred_at,
        content.actor,
        content.action,
        content.target,
        content.address,
        content.outcome,
        content.detail,
        entry.chain,
        secret.map(|secret| secret.operation),
        secret.and_then(|secret| secret.credential.clone()),
        secret.and_then(|secret| secret.worker_id.clone()),
        secret.and_then(|secret| secret.execution_id),
        secret.and_then(|secret| secret.parent_execution_id),
        secret.and_then(|secret| secret.key_id.clone()),
    ]
}

pub(crate) fn decode_audit_entry(cells: RowCells<'_>) -> Result<AuditEntry, CorruptRow> {
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
        detail: row.read_next::<Option<Json>>()?.unwrap_or(Json::Null),
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
    Ok(AuditEntry { content: NewAuditEntry { secret, ..content }, seq, chain })
}
