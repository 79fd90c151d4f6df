//! What the server's role may do, where it does not own the tables: everything with rows, but in the
//! log and in the trail of acts only what adds to it.

use noetl_types::Text;
use tokio_postgres::Transaction;

use super::bind::failure;
use super::pool::Pool;
use crate::error::StoreError;
use crate::model::{LogWall, MissingWall};

/// Statements that give the role what it lacks and take what it has beyond that; none where all is as
/// it should be, since whatever changes here makes every session plan anew.
///
/// A view is only read: rights to change it would be rights to change the log in its owner's name. A
/// trigger would be run in the owner's name too. Whoever made tables of their own in the schema decides
/// about them alone.
const CHANGES: &str = "WITH wanted AS (
        SELECT relation.oid, relation.relname, word.privilege,
            CASE
                WHEN word.privilege = 'SELECT' THEN TRUE
                WHEN relation.relkind = 'v' OR relation.relname = 'schema_migration' THEN FALSE
                WHEN starts_with(relation.relname::text, 'event') OR relation.relname = 'audit'
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

/// Opens the tables to the server's role, in the transaction of the owner that made or changed them.
pub(super) async fn give(transaction: &Transaction<'_>, role: &str) -> Result<(), StoreError> {
    let changes = transaction.query(CHANGES, &[&role]).await;
    let changes: Vec<String> = changes
        .map_err(failure)?
        .iter()
        .map(|row| row.get(0))
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    let changes = transaction.batch_execute(&changes.join(";\n")).await;
    changes.map_err(failure)
}

/// Why the session's role could change what is in the log, if it could: as a superuser, as the owner of
/// the log or of the schema around it, by a right that somebody gave it, or by what it could make the
/// owner do.
const LEAK: &str = "SELECT CASE
        WHEN me.rolsuper THEN format('the role %I is a superuser', current_user)
        WHEN pg_has_role(log.relowner, 'MEMBER') THEN format('the role %I owns it', current_user)
        WHEN pg_has_role(house.nspowner, 'MEMBER') OR has_schema_privilege(house.oid, 'CREATE')
            THEN format('the role %I may make and drop tables beside it', current_user)
        ELSE (
            SELECT format('the role %I may %s %I', current_user, word.privilege, part.relname)
            FROM pg_class AS part
            CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER'])
                AS word (privilege)
            WHERE part.relnamespace = house.oid AND part.relkind IN ('r', 'p', 'v')
                AND (starts_with(part.relname::text, 'event') OR part.relname = 'audit'
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
    JOIN pg_namespace AS house ON house.oid = log.relnamespace
    JOIN pg_roles AS me ON me.rolname = current_user
    WHERE log.oid = 'event'::regclass";

/// Walls around the log that do not stand.
pub(super) async fn missing_walls(pool: &Pool) -> Result<Vec<MissingWall>, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(LEAK, &[]).await?;
    let leak = rows.first().and_then(|row| row.get::<_, Option<&str>>(0));
    let mut missing = Vec::new();
    if let Some(leak) = leak {
        missing.push(MissingWall {
            wall: LogWall::AppendOnly,
            why: Text::from(leak),
        });
    }
    missing.push(MissingWall {
        wall: LogWall::RowSecurity,
        why: Text::from("queries alone keep tenants apart"),
    });
    Ok(missing)
}
