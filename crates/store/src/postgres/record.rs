//! Many rows as one parameter: an array of a composite type.

use std::error::Error;
use std::fmt::Debug;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, Kind as TypeKind, ToSql, Type, to_sql_checked};

use super::block::type_of;
use crate::row::{Cell, Kind};

/// The columns of a composite type, as its definition lists them.
pub(super) fn definition(groups: &[&[(&'static str, Kind)]]) -> String {
    let columns = groups.iter().copied().flatten();
    let columns = columns.map(|(name, kind)| match kind {
        Kind::Json => format!("{name} json"),
        Kind::Bool | Kind::Int | Kind::Float | Kind::Text | Kind::Bytes | Kind::Time => {
            format!("{name} {}", type_of(*kind))
        }
    });
    columns.collect::<Vec<_>>().join(", ")
}

/// Rows in the order of their columns.
#[derive(Debug)]
pub(super) struct Records<R>(pub(super) Vec<R>);

/// A parameter that is not what the statement wants.
#[derive(Debug, thiserror::Error)]
#[error("rows of {cells} columns cannot be a {ty}")]
struct OddRecord {
    cells: usize,
    ty: Type,
}

impl<R: AsRef<[Cell]> + Debug> ToSql for Records<R> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let odd = |cells| OddRecord {
            cells,
            ty: ty.clone(),
        };
        let TypeKind::Array(record) = ty.kind() else {
            return Err(odd(0).into());
        };
        let TypeKind::Composite(fields) = record.kind() else {
            return Err(odd(0).into());
        };
        put(out, i32::from(!self.0.is_empty())); // Dimensions.
        put(out, 0); // No element is NULL.
        out.extend_from_slice(&record.oid().to_be_bytes());
        if !self.0.is_empty() {
            put(out, i32::try_from(self.0.len())?);
            put(out, 1); // The first index.
        }
        for row in &self.0 {
            let row = row.as_ref();
            if row.len() != fields.len() {
                return Err(odd(row.len()).into());
            }
            sized(out, |out| {
                put(out, i32::try_from(fields.len())?);
                for (cell, field) in row.iter().zip(fields) {
                    out.extend_from_slice(&field.type_().oid().to_be_bytes());
                    sized(out, |out| cell.to_sql(field.type_(), out))?;
                }
                Ok(IsNull::No)
            })?;
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), TypeKind::Array(record) if matches!(record.kind(), TypeKind::Composite(_)))
    }

    to_sql_checked!();
}

fn put(out: &mut BytesMut, number: i32) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes something behind its length, which is -1 for what is absent.
fn sized(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>>,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    let place = out.len();
    put(out, -1);
    if let IsNull::No = write(out)? {
        let length = i32::try_from(out.len() - place - 4)?;
        if let Some(room) = out.get_mut(place..place + 4) {
            room.copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}
