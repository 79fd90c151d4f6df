locked AS MATERIALIZED (
    SELECT command_id, attempt, worker_id, lease_token, lease_until
    FROM command
    WHERE command_id = ANY ({commands}::bigint[])
    ORDER BY command_id
    FOR NO KEY UPDATE
),
held AS MATERIALIZED (
    SELECT wish.*
    FROM wish
    JOIN locked USING (command_id)
    WHERE locked.lease_until IS NOT NULL
        AND locked.attempt = wish.attempt
        AND (
            locked.lease_token = wish.token
            OR locked.worker_id = wish.worker
            OR locked.lease_until <= wish.expired_by
        )
)