locked AS MATERIALIZED (
    SELECT command_id, attempt, worker_id, lease_token, lease_until
    FROM command
    WHERE command_id = ANY ({commands}::bigint[])
    ORDER BY command_id
    FOR NO KEY UPDATE
),
held AS MATERIALIZED (
    SELECT fence.*
    FROM fence
    JOIN locked USING (command_id)
    WHERE locked.lease_until IS NOT NULL
        AND locked.attempt = fence.attempt
        AND (
            locked.lease_token = fence.token
            OR locked.worker_id = fence.worker
            OR locked.lease_until <= fence.expired_by
        )
)