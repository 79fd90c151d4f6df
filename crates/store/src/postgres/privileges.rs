//! Privileges of the server's role if it does not own the tables. It may read and change rows of
//! all tables, except that it may only append to the log, the audit log and the chain of anchors.

use noetl_types::Text;
use tokio_postgres::Transaction;

use super::bind::to_store_error;
use super::pool::ConnectionPool;
use crate::error::StoreError;
use crate::model::{FailedPrivilegeCheck, PrivilegeCheck};

/// Generates the GRANT and REVOKE statements for the role. Returns none if the privileges are
/// already right, since every change makes all sessions plan their statements again.
///
/// The role may only read views, because writing to a view would change the log with the privileges
/// of the owner. A trigger would also run with these privileges. Tables that another role created
/// in the schema are not touched.
const PRIVILEGE_CHANGES: &str = "WITH wanted AS (
        SELECT relation.oid, relation.relname, word.privilege,
            CASE
                WHEN word.privilege = 'SELECT' THEN TRUE
                WHEN relation.relkind = 'v' OR relation.relname = 'schema_migration' THEN FALSE
                WHEN starts_with(relation.relname::text, 'event') OR relation.relname IN ('audit', 'anchor')
                    THEN word.privilege = 'INSERT'
                ELSE word.privilege IN ('INSERT', 'UPDATE', 'DELETE')
            END AS is_wanted
        FROM pg_class AS relation
        CROSS JOIN unnest(ARRAY[
            'SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES'
        ]) AS word (privilege)
        WHERE relation.relnamespace = current_schema()::regnamespace
            AND relation.relkind IN ('r', 'p', 'v')
            AND pg_has_role(relation.relowner, 'USAGE')
            AND NOT pg_has_role($1::name, relation.relowner, 'USAGE')
    ), changed AS (
        SELECT relname, is_wanted, string_agg(privilege, ', ') AS privileges
        FROM wanted
        WHERE CASE
            WHEN is_wanted THEN NOT has_table_privilege($1::name, oid, privilege)
            WHEN privilege = 'UPDATE' THEN has_any_column_privilege($1::name, oid, privilege)
            ELSE has_table_privilege($1::name, oid, privilege)
        END
        GROUP BY relname, is_wanted
    )
    SELECT CASE
        WHEN is_wanted THEN format('GRANT %s ON %I TO %I', privileges, relname, $1::name)
        ELSE format('REVOKE %s ON %I FROM %I', privileges, relname, $1::name)
    END FROM changed
    UNION ALL
    SELECT format(change.text, nspname, $1::name)
    FROM pg_namespace
    CROSS JOIN (VALUES
        ('USAGE', TRUE, 'GRANT USAGE ON SCHEMA %I TO %I'),
        ('CREATE', FALSE, 'REVOKE CREATE ON SCHEMA %I FROM %I')
    ) AS change (privilege, is_wanted, text)
    WHERE nspname = current_schema() AND pg_has_role(nspowner, 'USAGE')
        AND NOT pg_has_role($1::name, nspowner, 'USAGE')
        AND has_schema_privilege($1::name, oid, change.privilege) <> change.is_wanted
    UNION ALL
    SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', oid::regprocedure, $1::name)
    FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND pg_has_role(proowner, 'USAGE')
        AND starts_with(proname::text, 'append_')
        AND NOT has_function_privilege($1::name, oid, 'EXECUTE')
    UNION ALL
    SELECT format('GRANT USAGE ON TYPE %s TO %I', oid::regtype, $1::name)
    FROM pg_type
    WHERE typnamespace = current_schema()::regnamespace AND pg_has_role(typowner, 'USAGE')
        AND typtype = 'c' AND starts_with(typname::text, 'append_')
        AND NOT has_type_privilege($1::name, oid, 'USAGE')";

/// Grants the server's role its privileges, in the owner's transaction that created or changed
/// tables.
pub(super) async fn sync_privileges(
    transaction: &Transaction<'_>,
    role: &str,
) -> Result<(), StoreError> {
    let changes = transaction.query(PRIVILEGE_CHANGES, &[&role]).await;
    let changes: Vec<String> =
        changes.map_err(to_store_error)?.iter().map(|row| row.get(0)).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let changes = transaction.batch_execute(&changes.join(";\n")).await;
    changes.map_err(to_store_error)
}

/// Selects the reason that the session's role could change existing events, or null if it cannot.
/// It could as a superuser, as the owner of the log or its schema, by a granted privilege, or by a
/// trigger that runs with the privileges of the owner.
const LOG_WRITE_REASON: &str = "SELECT CASE
        WHEN me.rolsuper THEN format('the role %I is a superuser', current_user)
        WHEN pg_has_role(log.relowner, 'MEMBER') THEN format('the role %I owns it', current_user)
        WHEN pg_has_role(log_schema.nspowner, 'MEMBER') OR has_schema_privilege(log_schema.oid, 'CREATE')
            THEN format('the role %I may create and drop tables in its schema', current_user)
        ELSE (
            SELECT format('the role %I may %s %I', current_user, word.privilege, part.relname)
            FROM pg_class AS part
            CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER'])
                AS word (privilege)
            WHERE part.relnamespace = log_schema.oid AND part.relkind IN ('r', 'p', 'v')
                AND (starts_with(part.relname::text, 'event') OR part.relname IN ('audit', 'anchor')
                    OR word.privilege = 'TRIGGER')
                AND CASE word.privilege
                    WHEN 'UPDATE' THEN has_any_column_privilege(part.oid, word.privilege)
                    ELSE has_table_privilege(part.oid, word.privilege)
                END
            ORDER BY part.relname, word.privilege
            LIMIT 1
        )
    END
    FROM pg_class AS log
    JOIN pg_namespace AS log_schema ON log_schema.oid = log.relnamespace
    JOIN pg_roles AS me ON me.rolname = current_user
    WHERE log.oid = 'event'::regclass";

/// Returns the privilege checks that fail.
pub(super) async fn list_failed_privilege_checks(
    pool: &ConnectionPool,
) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(LOG_WRITE_REASON, &[]).await?;
    let reason = rows.first().and_then(|row| row.get::<_, Option<&str>>(0));
    let mut failed = Vec::new();
    if let Some(reason) = reason {
        failed.push(FailedPrivilegeCheck {
            check: PrivilegeCheck::AppendOnly,
            reason: Text::from(reason),
        });
    }
    failed.push(FailedPrivilegeCheck {
        check: PrivilegeCheck::RowSecurity,
        reason: Text::from("only the queries separate tenants"),
    });
    Ok(failed)
}
