//! Passes many rows as one parameter: an array of a composite type.

use std::error::Error;
use std::fmt::Debug;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, Kind as TypeKind, ToSql, Type, to_sql_checked};

use super::column_arrays::sql_type;
use crate::row::{Cell, ColumnKind};

/// Returns the columns of a composite type as SQL, for its definition.
pub(super) fn composite_columns_sql(groups: &[&[(&'static str, ColumnKind)]]) -> String {
    let columns = groups.iter().copied().flatten();
    let columns = columns.map(|(name, kind)| {
        let sql_type = if *kind == ColumnKind::Json { "json" } else { sql_type(*kind) };
        format!("{name} {sql_type}")
    });
    columns.collect::<Vec<_>>().join(", ")
}

/// Rows of a composite type.
#[derive(Debug)]
pub(super) struct CompositeRows<R>(pub(super) Vec<R>);

/// Error for rows that do not match the type of the parameter.
#[derive(Debug, thiserror::Error)]
#[error("rows of {cells} columns do not match the parameter type {ty}")]
struct RowTypeMismatch {
    cells: usize,
    ty: Type,
}

impl<R: AsRef<[Cell]> + Debug> ToSql for CompositeRows<R> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let mismatch = |cells| RowTypeMismatch { cells, ty: ty.clone() };
        let TypeKind::Array(record) = ty.kind() else {
            return Err(mismatch(0).into());
        };
        let TypeKind::Composite(fields) = record.kind() else {
            return Err(mismatch(0).into());
        };
        put_i32(out, i32::from(!self.0.is_empty())); // Dimensions.
        put_i32(out, 0); // No element is NULL.
        out.extend_from_slice(&record.oid().to_be_bytes());
        if !self.0.is_empty() {
            put_i32(out, i32::try_from(self.0.len())?);
            put_i32(out, 1); // The first index.
        }
        for row in &self.0 {
            let row = row.as_ref();
            if row.len() != fields.len() {
                return Err(mismatch(row.len()).into());
            }
            write_with_length(out, |out| {
                put_i32(out, i32::try_from(fields.len())?);
                for (cell, field) in row.iter().zip(fields) {
                    out.extend_from_slice(&field.type_().oid().to_be_bytes());
                    write_with_length(out, |out| cell.to_sql(field.type_(), out))?;
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

fn put_i32(out: &mut BytesMut, number: i32) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes a value with its length in front. The length of a null is -1.
fn write_with_length(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>>,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    let start = out.len();
    put_i32(out, -1);
    if let IsNull::No = write(out)? {
        let length = i32::try_from(out.len() - start - 4)?;
        if let Some(length_bytes) = out.get_mut(start..start + 4) {
            length_bytes.copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}
