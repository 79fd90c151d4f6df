-- Null parameters leave a column unchanged. `not_before` changes only together with the end of the
-- lease.
UPDATE command
SET status = coalesce(?3, status),
    held = coalesce(?4, held),
    lease_token = CASE WHEN ?5 THEN NULL ELSE lease_token END,
    lease_until = CASE WHEN ?5 THEN NULL ELSE lease_until END,
    not_before = CASE WHEN ?5 THEN ?6 ELSE not_before END,
    started_at = coalesce(?7, started_at),
    completed_at = coalesce(?8, completed_at),
    error = coalesce(?9, error)
WHERE command_id = ?1
    AND execution_id = ?2
