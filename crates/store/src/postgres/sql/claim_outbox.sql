-- Claims rows that are due, and rows whose lease has expired or was never set. Rows locked by another
-- claim are skipped. The total size of the messages is limited, except for the first row. All steps before
-- the last one use narrow rows, so that only the events of claimed rows are read. A row that has
-- reached the maximum number of attempts is marked dead and returned as dead. So is a row with
-- invalid attempt counts, which are replaced with valid ones.
--
-- $1 now, $2 maximum rows, $3 maximum bytes, $4 owner, $5 end of the lease, $6 maximum attempts.
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
    WHERE status = 'IN_FLIGHT' AND (lease_until <= $1::timestamptz OR lease_until IS NULL)
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
