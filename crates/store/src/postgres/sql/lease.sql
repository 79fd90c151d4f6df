-- Grants leases. The commit is not synced to disk: losing a grant in a crash is harmless.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
waiting AS MATERIALIZED (
    SELECT command_id, execution_id, priority
    FROM command
    WHERE pool = $1
        AND status = 'PENDING'
        AND NOT held
        AND (not_before IS NULL OR not_before <= $2::timestamptz)
        AND ($3::text[] IS NULL OR tool_kind = ANY ($3))
    ORDER BY priority DESC, command_id
    LIMIT $4::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),
ranked AS (
    SELECT
        command_id,
        priority,
        row_number() OVER (PARTITION BY execution_id, priority ORDER BY command_id) AS turn
    FROM waiting
),
chosen AS (
    SELECT command_id, turn
    FROM ranked
    ORDER BY priority DESC, turn, command_id
    LIMIT $5::bigint
),
granted AS (
    UPDATE command
    SET status = 'CLAIMED',
        attempt = command.attempt + 1,
        worker_id = $6,
        lease_token = $7,
        lease_until = least($8::timestamptz, $2::timestamptz + command.deadline_ms * interval '1 millisecond'),
        claimed_at = $2
    FROM chosen, relaxed
    WHERE command.command_id = chosen.command_id
        AND relaxed.setting = 'off'
    RETURNING {command_columns}, chosen.turn
)
SELECT {granted_columns}, {event_columns}, event.tx::text::bigint, event.position
FROM granted
-- The ORDER BY makes the planner use the right index. With a plain equality, a plan made while the
-- log is empty may use the index on `seq`, and later scan all events of an execution.
JOIN LATERAL (
    SELECT *
    FROM event
    WHERE event.execution_id = granted.execution_id
        AND event.event_id >= granted.command_id
    ORDER BY event.execution_id, event.event_id
    LIMIT 1
) AS event ON event.event_id = granted.command_id
ORDER BY granted.priority DESC, granted.turn, granted.command_id
