-- A whole group of appends. The subqueries in braces are the parameters, one array for each column.
-- Lines between "--if" and "--end" are there only for groups that need them: what a statement does
-- not do, the server need not set up.
--
-- A row of another append in progress is skipped and reported as a conflict, never waited for.
-- Commands are locked in the order of their ids, as everywhere, so nobody waits in a circle.
WITH item AS MATERIALIZED ({item}),
new_event AS ({event}),
--if fences
fence AS MATERIALIZED ({fence}),
--end
--if issues
new_command AS ({command}),
--end
--if patches
patch AS ({patch}),
--end
--if timers
new_timer AS MATERIALIZED ({timer}),
--end
--if results
new_result AS ({result}),
--end
seen AS MATERIALIZED (
    SELECT execution_id, version
    FROM execution
    WHERE execution_id = ANY ({executions})
),
--if advances
locked AS MATERIALIZED (
    SELECT execution_id, version, chain_head, ended
    FROM execution
    WHERE execution_id = ANY ({executions})
    ORDER BY execution_id
    FOR NO KEY UPDATE SKIP LOCKED
),
--end
--if touches
touched AS MATERIALIZED (
    SELECT command_id, execution_id, attempt, worker_id, lease_token, lease_until
    FROM command
    WHERE command_id = ANY ({commands})
    ORDER BY command_id
    FOR NO KEY UPDATE
),
--end
--if fences
broken AS (
    SELECT DISTINCT ON (fence.item) fence.item, fence.command_id
    FROM fence
    JOIN item USING (item)
    LEFT JOIN touched AS held
        ON held.command_id = fence.command_id
        AND held.execution_id = item.execution_id
        AND held.attempt = fence.attempt
        AND held.lease_until IS NOT NULL
        AND (
            held.lease_token = fence.token
            OR held.worker_id = fence.worker
            OR held.lease_until <= fence.expired_by
        )
    WHERE held.command_id IS NULL
    ORDER BY fence.item, fence.place
),
--end
verdict AS MATERIALIZED (
    SELECT
        item.item,
        item.execution_id,
        item.starts,
--if fences
        broken.command_id AS fenced,
--end
--if advances
        coalesce(locked.version, seen.version) AS version,
--else
        seen.version,
--end
        CASE
            WHEN EXISTS (
                SELECT FROM retention_range AS dropped
                WHERE dropped.lo <= item.execution_id AND item.execution_id < dropped.hi
            ) THEN 'gone'
            WHEN item.starts AND seen.execution_id IS NOT NULL THEN 'exists'
--if advances
            WHEN NOT item.starts AND seen.execution_id IS NULL THEN 'not found'
            WHEN NOT item.starts AND (
                locked.execution_id IS NULL
                OR locked.version <> item.expected
                OR locked.chain_head <> item.expected_chain
            ) THEN 'conflict'
            WHEN locked.ended AND NOT item.is_audit THEN 'ended'
--end
--if fences
            WHEN broken.command_id IS NOT NULL THEN 'fenced'
--end
            ELSE 'accepted'
        END AS verdict
    FROM item
    LEFT JOIN seen USING (execution_id)
--if advances
    LEFT JOIN locked USING (execution_id)
--end
--if fences
    LEFT JOIN broken USING (item)
--end
--if touches
    -- Always true: commands are locked before anything is written.
    WHERE (SELECT count(*) FROM touched) >= 0
--end
),
--if starts
started AS (
    INSERT INTO execution ({execution_columns})
    SELECT {item_execution_columns}
    FROM item
    JOIN verdict USING (item)
    WHERE verdict.verdict = 'accepted' AND verdict.starts
    ORDER BY item.execution_id
    ON CONFLICT (execution_id) DO NOTHING
    RETURNING execution_id
),
accepted AS MATERIALIZED (
    SELECT verdict.item
    FROM verdict
    LEFT JOIN started USING (execution_id)
    WHERE verdict.verdict = 'accepted'
        AND (NOT verdict.starts OR started.execution_id IS NOT NULL)
),
--else
accepted AS MATERIALIZED (
    SELECT item
    FROM verdict
    WHERE verdict = 'accepted'
),
--end
--if advances
advanced AS (
    UPDATE execution
    SET ({changing_columns}) = ROW ({item_changing_columns})
    FROM item
    JOIN verdict USING (item)
    WHERE verdict.verdict = 'accepted'
        AND NOT verdict.starts
        AND execution.execution_id = item.execution_id
),
--end
--if issues
issued AS (
    INSERT INTO command ({command_columns})
    SELECT {new_command_columns}
    FROM new_command
    JOIN accepted USING (item)
),
--end
--if results
kept AS (
    INSERT INTO result_store ({result_columns})
    SELECT {new_result_columns}
    FROM new_result
    JOIN accepted USING (item)
),
--end
--if patches
patched AS (
    UPDATE command
    SET status = coalesce(patch.status, command.status),
        held = coalesce(patch.held, command.held),
        lease_token = CASE WHEN patch.ends_lease THEN NULL ELSE command.lease_token END,
        lease_until = CASE WHEN patch.ends_lease THEN NULL ELSE command.lease_until END,
        not_before = CASE WHEN patch.ends_lease THEN patch.not_before ELSE command.not_before END,
        started_at = coalesce(patch.started_at, command.started_at),
        completed_at = coalesce(patch.completed_at, command.completed_at),
        error = coalesce(patch.error, command.error)
    FROM patch
    JOIN accepted USING (item)
    WHERE command.command_id = patch.command_id
        AND command.execution_id = patch.execution_id
),
--end
--if timers
armed AS (
    INSERT INTO timer (execution_id, timer_id, fire_at)
    SELECT new_timer.execution_id, new_timer.timer_id, new_timer.fire_at
    FROM new_timer
    JOIN accepted USING (item)
    WHERE new_timer.fire_at IS NOT NULL
    ON CONFLICT (execution_id, timer_id) DO UPDATE SET fire_at = excluded.fire_at
),
disarmed AS (
    DELETE FROM timer
    USING new_timer
    JOIN accepted USING (item)
    WHERE new_timer.fire_at IS NULL
        AND timer.execution_id = new_timer.execution_id
        AND timer.timer_id = new_timer.timer_id
),
--end
written AS (
    INSERT INTO event ({event_columns})
    SELECT {new_event_columns}
    FROM new_event
    JOIN accepted USING (item)
    ORDER BY new_event.item, new_event.seq
    RETURNING execution_id, position
),
fed AS (
    SELECT execution_id, max(position) AS position
    FROM written
    GROUP BY execution_id
)
SELECT
    verdict.item,
    -- A start that was accepted and not made met another one on its way.
    CASE
        WHEN verdict.verdict = 'accepted' AND accepted.item IS NULL THEN 'exists'
        ELSE verdict.verdict
    END,
    verdict.version,
--if fences
    verdict.fenced,
--else
    NULL::bigint,
--end
    CASE WHEN accepted.item IS NOT NULL THEN pg_current_xact_id()::text::bigint END,
    fed.position
FROM verdict
LEFT JOIN accepted USING (item)
LEFT JOIN fed USING (execution_id)
