-- Number of live executions that this store drives, at most ?3. At most ?2 live executions are
-- read, since `origin` is not in the index.
SELECT count(*) FROM (
    SELECT 1 FROM (
        SELECT origin FROM execution
        WHERE tenant_id = ?1 AND status IN ('PENDING', 'RUNNING', 'PAUSED')
        LIMIT ?2
    ) AS going_on
    WHERE origin = 'driven'
    LIMIT ?3
) AS live
