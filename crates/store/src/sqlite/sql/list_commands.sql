FROM command
JOIN execution USING (execution_id)
WHERE execution.tenant_id = ?1
    AND (?2 IS NULL OR command.status IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR command.execution_id = ?3)
    AND (?4 IS NULL OR command.pool = ?4)
    AND (?5 IS NULL OR command.worker_id = ?5)
    AND (?6 IS NULL OR command.command_id > ?6)
ORDER BY command.command_id
LIMIT ?7
