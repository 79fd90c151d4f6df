AS entry
WHERE tenant_id = ?1
    AND (?2 IS NULL OR kind = ?2)
    AND (?3 IS NULL OR path > ?3)
    AND version = (
        SELECT max(newest.version)
        FROM catalog AS newest
        WHERE newest.tenant_id = entry.tenant_id AND newest.path = entry.path
    )
    AND (?5 OR archived_at IS NULL)
ORDER BY path
LIMIT ?4
