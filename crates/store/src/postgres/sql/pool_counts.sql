-- Pending and leased commands per pool. Each half reads one small index that excludes completed
-- commands.
WITH waiting AS (
    SELECT pool, count(*) AS pending
    FROM command
    WHERE status = 'PENDING' AND NOT held
    GROUP BY pool
),
held AS (
    SELECT pool, count(*) AS leased, min(claimed_at) AS oldest_lease
    FROM command
    WHERE lease_until IS NOT NULL
    GROUP BY pool
)
SELECT pool, coalesce(pending, 0), coalesce(leased, 0), oldest_lease
FROM waiting
FULL JOIN held USING (pool)
ORDER BY pool COLLATE "C"
LIMIT $1::bigint
