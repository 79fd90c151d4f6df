-- Rows whose time has come, and rows whose publisher let its lease run out. Those that another claim
-- has in hand are skipped. The bytes of payloads are bounded, but for the first row.
--
-- $1 now, $2 how many, $3 bytes, $4 owner, $5 end of the lease, $6 attempts that are enough.
WITH ready AS MATERIALIZED (
    SELECT outbox_id
    FROM outbox
    WHERE status IN ('PENDING', 'FAILED') AND available_at <= $1::timestamptz
    ORDER BY available_at, outbox_id
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
), lapsed AS MATERIALIZED (
    SELECT outbox_id
    FROM outbox
    WHERE status = 'IN_FLIGHT' AND lease_until <= $1::timestamptz
    ORDER BY available_at, outbox_id
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT
        row.outbox_id,
        row.available_at,
        row.execution_id,
        row.event_id,
        row.payload,
        row.attempts - row.forgiven AS tries
    FROM (SELECT outbox_id FROM ready UNION ALL SELECT outbox_id FROM lapsed) AS picked
    JOIN outbox AS row ON row.outbox_id = picked.outbox_id
    ORDER BY row.available_at, row.outbox_id
    LIMIT $2::bigint
), found AS MATERIALIZED (
    SELECT
        due.outbox_id,
        due.tries,
        {event_columns},
        row_number() OVER by_turn AS turn,
        sum(
            1024
            + coalesce(octet_length(due.payload::text), 0)
            + coalesce(octet_length(event.context::text), 0)
            + coalesce(octet_length(event.result::text), 0)
            + coalesce(octet_length(event.meta::text), 0)
            + coalesce(octet_length(event.extra::text), 0)
            + coalesce(octet_length(event.error), 0)
            + coalesce(octet_length(event.stack_trace), 0)
        ) OVER by_turn AS bytes
    FROM due
    LEFT JOIN LATERAL (
        SELECT *
        FROM event AS candidate
        WHERE due.payload IS NULL
            AND candidate.execution_id = due.execution_id
            AND candidate.event_id >= due.event_id
        ORDER BY candidate.execution_id, candidate.event_id
        LIMIT 1
    ) AS event ON event.event_id = due.event_id
    WINDOW by_turn AS (ORDER BY due.available_at, due.outbox_id)
), taken AS (
    UPDATE outbox
    SET status = verdict.status,
        dead_at = CASE WHEN verdict.status = 'DEAD' THEN $1::timestamptz END,
        attempts = outbox.attempts + verdict.more,
        claim_owner = CASE WHEN verdict.status = 'DEAD' THEN outbox.claim_owner ELSE $4::text END,
        locked_at = CASE WHEN verdict.status = 'DEAD' THEN outbox.locked_at ELSE $1::timestamptz END,
        lease_until = CASE WHEN verdict.status = 'DEAD' THEN NULL ELSE $5::timestamptz END,
        updated_at = $1::timestamptz
    FROM found
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN found.tries >= $6::bigint THEN 'DEAD' ELSE 'IN_FLIGHT' END AS status,
            CASE WHEN found.tries >= $6::bigint THEN 0 ELSE 1 END AS more
    ) AS verdict
    WHERE outbox.outbox_id = found.outbox_id
        AND (found.bytes <= $3::bigint OR found.turn = 1)
    -- With its event, which need not be looked for a second time then.
    RETURNING
        {claimed_columns},
        {found_columns},
        found.tx,
        found.position,
        verdict.status AS row_status,
        outbox.available_at AS row_available_at
)
SELECT {columns}, taken.tx, taken.position
FROM taken
WHERE taken.row_status = 'IN_FLIGHT'
ORDER BY taken.row_available_at, taken.row_outbox_id
