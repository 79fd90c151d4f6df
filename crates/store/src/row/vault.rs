//! The tables of identities and their trail, column by column.

use noetl_types::{Json, PoolName, Scope, Scopes, Text};

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell};
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::{ApiToken, AuditEntry, NewAudit, SecretAct};

/// A token.
pub(crate) static TOKEN: Table = Table {
    name: "api_token",
    columns: &[
        ("token_id", Kind::Int),
        ("tenant_id", Kind::Text),
        ("organization_id", Kind::Text),
        ("prefix", Kind::Text),
        ("sha256", Kind::Bytes),
        ("name", Kind::Text),
        ("scopes", Kind::Json),
        ("pools", Kind::Json),
        ("path_globs", Kind::Json),
        ("created_at", Kind::Time),
        ("created_by", Kind::Text),
        ("expires_at", Kind::Time),
        ("last_used_at", Kind::Time),
        ("revoked_at", Kind::Time),
    ],
};

/// An entry of the trail.
pub(crate) static AUDIT: Table = Table {
    name: "audit",
    columns: &[
        ("audit_id", Kind::Int),
        ("tenant_id", Kind::Text),
        ("seq", Kind::Int),
        ("occurred_at", Kind::Time),
        ("actor", Kind::Text),
        ("act", Kind::Text),
        ("target", Kind::Text),
        ("address", Kind::Text),
        ("outcome", Kind::Text),
        ("detail", Kind::Json),
        ("chain", Kind::Bytes),
        ("operation", Kind::Text),
        ("credential", Kind::Text),
        ("worker_id", Kind::Text),
        ("execution_id", Kind::Int),
        ("parent_execution_id", Kind::Int),
        ("key_id", Kind::Text),
    ],
};

impl ToCell for Scopes {
    fn to_cell(&self) -> Cell {
        Json::list(self.iter().map(|scope| Json::from(scope.as_str()))).to_cell()
    }
}

/// A word that this version does not know allows nothing in it.
impl FromCell for Scopes {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let words = Vec::<Text>::from_cell(cell)?;
        Ok(words
            .iter()
            .filter_map(|word| Scope::parse(word).ok())
            .collect())
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
        let words = list.as_list().unwrap_or_default().iter();
        let words = words.filter_map(|word| Text::new(word.as_str()?).ok());
        Ok(words.collect())
    }
}

impl ToCell for Vec<PoolName> {
    fn to_cell(&self) -> Cell {
        Json::list(self.iter().map(|pool| Json::from(pool.as_str()))).to_cell()
    }
}

/// A name that is none opens no pool.
impl FromCell for Vec<PoolName> {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let words = Vec::<Text>::from_cell(cell)?;
        let pools = words
            .iter()
            .filter_map(|word| PoolName::new(word.as_str()).ok());
        Ok(pools.collect())
    }
}

pub(crate) fn token_row(token: &ApiToken) -> Vec<Cell> {
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

pub(crate) fn token(cells: Cells<'_>) -> Result<ApiToken, Corrupt> {
    let mut row = Reader::new(&TOKEN, cells);
    Ok(ApiToken {
        token_id: row.take()?,
        tenant_id: row.take()?,
        organization_id: row.take()?,
        prefix: row.take()?,
        sha256: row.take()?,
        name: row.take()?,
        scopes: row.take()?,
        pools: row.take()?,
        path_globs: row.take()?,
        created_at: row.take()?,
        created_by: row.take()?,
        expires_at: row.take()?,
        last_used_at: row.take()?,
        revoked_at: row.take()?,
    })
}

pub(crate) fn audit_row(entry: &AuditEntry) -> Vec<Cell> {
    let act = &entry.act;
    let secret = act.secret.as_ref();
    cells![
        act.audit_id,
        act.tenant_id,
        entry.seq,
        act.occurred_at,
        act.actor,
        act.act,
        act.target,
        act.address,
        act.outcome,
        act.detail,
        entry.chain,
        secret.map(|secret| secret.operation),
        secret.and_then(|secret| secret.credential.clone()),
        secret.and_then(|secret| secret.worker_id.clone()),
        secret.and_then(|secret| secret.execution_id),
        secret.and_then(|secret| secret.parent_execution_id),
        secret.and_then(|secret| secret.key_id.clone()),
    ]
}

pub(crate) fn audit(cells: Cells<'_>) -> Result<AuditEntry, Corrupt> {
    let mut row = Reader::new(&AUDIT, cells);
    let (audit_id, tenant_id, seq) = (row.take()?, row.take()?, row.take()?);
    let act = NewAudit {
        audit_id,
        tenant_id,
        occurred_at: row.take()?,
        actor: row.take()?,
        act: row.take()?,
        target: row.take()?,
        address: row.take()?,
        outcome: row.take()?,
        detail: row.take::<Option<Json>>()?.unwrap_or(Json::Null),
        secret: None,
    };
    let chain = row.take()?;
    let secret = match row.take()? {
        None => None,
        Some(operation) => Some(SecretAct {
            operation,
            credential: row.take()?,
            worker_id: row.take()?,
            execution_id: row.take()?,
            parent_execution_id: row.take()?,
            key_id: row.take()?,
        }),
    };
    Ok(AuditEntry {
        act: NewAudit { secret, ..act },
        seq,
        chain,
    })
}
