WHERE tenant_id = $1
    AND ($2::text IS NULL OR status = $2)
    AND ($3::text IS NULL OR path = $3)
    AND ($4::bigint IS NULL OR parent_execution_id = $4)
    AND ($5::timestamptz IS NULL OR (started_at, execution_id) < ($5, $6::bigint))
ORDER BY started_at DESC, execution_id DESC
LIMIT $7::bigint
