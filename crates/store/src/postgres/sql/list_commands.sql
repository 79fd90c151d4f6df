FROM command
JOIN execution USING (execution_id)
WHERE execution.tenant_id = $1
    AND ($2::text[] IS NULL OR command.status = ANY ($2))
    AND ($3::bigint IS NULL OR command.execution_id = $3)
    AND ($4::text IS NULL OR command.pool = $4)
    AND ($5::text IS NULL OR command.worker_id = $5)
    AND ($6::bigint IS NULL OR command.command_id > $6)
ORDER BY command.command_id
LIMIT $7::bigint
