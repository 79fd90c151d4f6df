WHERE tenant_id = ?1
    AND ?2 IS NULL
    AND (?3 IS NULL OR path = ?3)
    AND (?4 IS NULL OR parent_execution_id = ?4)
    AND (?5 IS NULL OR (started_at, execution_id) < (?5, ?6))
ORDER BY started_at DESC, execution_id DESC
LIMIT ?7
