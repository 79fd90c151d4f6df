-- Number of definitions by kind. Only the newest version of each definition counts.
SELECT kind, count(*)
FROM catalog AS entry
WHERE tenant_id = ?1
    AND archived_at IS NULL
    AND version = (
        SELECT max(newest.version)
        FROM catalog AS newest
        WHERE newest.tenant_id = entry.tenant_id AND newest.path = entry.path
    )
GROUP BY kind
