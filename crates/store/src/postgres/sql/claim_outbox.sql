-- Rows whose time has come, and rows whose publisher let its lease run out. Those that another claim
-- has in hand are skipped. The bytes of messages are bounded, but for the first row. Everything before
-- the last step works on narrow rows: events are read once, when it is known which are wanted. A row
-- that was tried often enough dies, and is told as such; so does one whose counts are none, which nobody
-- could be given, and gets counts.
--
-- $1 now, $2 how many, $3 bytes, $4 owner, $5 end of the lease, $6 attempts that are enough.
WITH ready AS MATERIALIZED (
    SELECT outbox_id, available_at, bytes, {tries} AS tries
    FROM outbox
    WHERE status IN ('PENDING', 'FAILED') AND available_at <= $1::timestamptz
    ORDER BY available_at, outbox_id
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
), lapsed AS MATERIALIZED (
    SELECT outbox_id, available_at, bytes, {tries} AS tries
    FROM outbox
    WHERE status = 'IN_FLIGHT' AND lease_until <= $1::timestamptz
    ORDER BY available_at, outbox_id
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT
        outbox_id,
        tries,
        row_number() OVER by_turn AS turn,
        sum(bytes) OVER by_turn AS bytes
    FROM (SELECT * FROM ready UNION ALL SELECT * FROM lapsed) AS picked
    WINDOW by_turn AS (ORDER BY available_at, outbox_id)
    ORDER BY available_at, outbox_id
    LIMIT $2::bigint
), taken AS (
    UPDATE outbox
    SET status = verdict.status,
        dead_at = CASE WHEN verdict.status = 'DEAD' THEN $1::timestamptz END,
        attempts = {attempts} + verdict.more,
        forgiven = {forgiven},
        last_error = CASE WHEN due.tries IS NULL THEN '{no_counts}' ELSE outbox.last_error END,
        claim_owner = CASE WHEN verdict.status = 'DEAD' THEN outbox.claim_owner ELSE $4::text END,
        locked_at = CASE WHEN verdict.status = 'DEAD' THEN outbox.locked_at ELSE $1::timestamptz END,
        lease_until = CASE WHEN verdict.status = 'DEAD' THEN NULL ELSE $5::timestamptz END,
        updated_at = $1::timestamptz
    FROM due
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN due.tries < $6::bigint THEN 'IN_FLIGHT' ELSE 'DEAD' END AS status,
            CASE WHEN due.tries < $6::bigint THEN 1 ELSE 0 END AS more
    ) AS verdict
    WHERE outbox.outbox_id = due.outbox_id
        AND (due.bytes <= $3::bigint OR due.turn = 1)
    RETURNING {claimed_columns}, outbox.status, outbox.available_at
)
SELECT {taken_columns}, {event_columns},
    taken.status = 'DEAD'
FROM taken
LEFT JOIN LATERAL (
    SELECT *
    FROM event AS candidate
    WHERE taken.payload IS NULL AND taken.status = 'IN_FLIGHT'
        AND candidate.execution_id = taken.execution_id
        AND candidate.event_id >= taken.event_id
    ORDER BY candidate.execution_id, candidate.event_id
    LIMIT 1
) AS event ON event.event_id = taken.event_id
ORDER BY taken.available_at, taken.outbox_id
