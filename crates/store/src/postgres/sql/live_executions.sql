-- Executions that go on and are driven here, up to $3. Of those that go on at most $2 are looked at: where
-- they come from is not in the index.
SELECT count(*) FROM (
    SELECT 1 FROM (
        SELECT origin FROM execution
        WHERE tenant_id = $1 AND status IN ('PENDING', 'RUNNING', 'PAUSED')
        LIMIT $2::bigint
    ) AS going_on
    WHERE origin = 'driven'
    LIMIT $3::bigint
) AS live
