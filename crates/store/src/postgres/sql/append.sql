-- Appends a group in one statement of the caller. Parameters without rows cost nothing. An append
-- runs a few small statements, which the server has already planned.
--
-- Items are sorted by execution, with each execution once. Other rows are in the same order. If
-- another append in progress holds an execution row, the item is reported as a conflict without
-- waiting. Commands are locked first and in the order of their ids, as in all statements, so that
-- transactions do not deadlock.
--
-- Lines between "--if shared" and "--end" are only in the second of two functions, for groups that
-- change coordination tables. Idempotency and dedup keys are locked in order before any key is
-- checked or written, so appends with the same key are checked one after the other.
CREATE FUNCTION {name}(
    items {name}_item[],
    events {name}_event[],
    fences {name}_fence[],
    issued {name}_command[],
    patches {name}_patch[],
    timers {name}_timer[],
    results {name}_result[],
    outgoing {name}_outbox[],
    touched BIGINT[]
--if shared
    , waits {name}_wait[]
    , errands {name}_errand[]
    , slots {name}_slot[]
    , cached {name}_cached[]
    , requests {name}_request[]
    , messages {name}_message[]
    , claimed BIGINT[]
--end
) RETURNS TABLE (
    item_id BIGINT,
    item_verdict TEXT,
    item_version BIGINT,
    item_fenced BIGINT,
    item_tx BIGINT,
    item_position BIGINT
--if shared
    , item_other BIGINT
    , item_status BIGINT
    , item_answer JSON
    , item_expires TIMESTAMPTZ
--end
) LANGUAGE plpgsql AS $append$
#variable_conflict use_column
DECLARE
    item {name}_item;
    found_at RECORD;
    broken {name}_fence[] := '{}';
    has_drops BOOLEAN;
    accepted BIGINT[] := '{}';
    all_in BOOLEAN := TRUE;
--if shared
    lock_key BIGINT;
--end
BEGIN
    IF cardinality(touched) > 0 THEN
        PERFORM 1
        FROM command
        WHERE command_id = ANY (touched)
        ORDER BY command_id
        FOR NO KEY UPDATE;
    END IF;

--if shared
    FOREACH lock_key IN ARRAY claimed LOOP
        PERFORM pg_advisory_xact_lock(lock_key);
    END LOOP;

--end
    IF cardinality(fences) > 0 THEN
        broken := ARRAY(
            SELECT fence
            FROM unnest(fences) AS fence
            WHERE NOT EXISTS (
                SELECT
                FROM command AS held
                WHERE held.command_id = fence.command_id
                    AND held.execution_id = fence.execution_id
                    AND held.attempt = fence.attempt
                    AND held.lease_until IS NOT NULL
                    AND (
                        held.lease_token = fence.token
                        OR held.worker_id = fence.worker
                        OR held.lease_until <= fence.expired_by
                    )
            )
        );
    END IF;

    has_drops := EXISTS (SELECT FROM retention_range);

    FOREACH item IN ARRAY items LOOP
        item_id := item.execution_id;
        item_verdict := NULL;
        item_version := NULL;
        item_fenced := NULL;
--if shared
        item_other := NULL;
        item_status := NULL;
        item_answer := NULL;
        item_expires := NULL;
--end

        IF has_drops AND EXISTS (
            SELECT
            FROM retention_range AS dropped
            WHERE dropped.lo <= item.execution_id AND item.execution_id < dropped.hi
        ) THEN
            item_verdict := 'gone';
        ELSIF NOT item.starts THEN
            SELECT execution.version, execution.chain_head, execution.ended
            INTO found_at
            FROM execution
            WHERE execution.execution_id = item.execution_id
            FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT execution.version
                INTO item_version
                FROM execution
                WHERE execution.execution_id = item.execution_id;
                item_verdict := CASE WHEN FOUND THEN 'conflict' ELSE 'not found' END;
            ELSIF found_at.version <> item.expected
                OR found_at.chain_head <> item.expected_chain
            THEN
                item_version := found_at.version;
                item_verdict := 'conflict';
            ELSIF found_at.ended AND NOT item.is_audit THEN
                item_verdict := 'ended';
            END IF;
        END IF;

        IF item_verdict IS NULL AND cardinality(broken) > 0 THEN
            SELECT fence.command_id
            INTO item_fenced
            FROM unnest(broken) AS fence
            WHERE fence.execution_id = item.execution_id
            LIMIT 1;
            IF FOUND THEN
                item_verdict := 'fenced';
            END IF;
        END IF;

--if shared
        -- Report an existing execution first. Otherwise its own key would be reported as a
        -- duplicate.
        IF item_verdict IS NULL AND item.starts AND EXISTS (
            SELECT
            FROM execution
            WHERE execution.execution_id = item.execution_id
        ) THEN
            item_verdict := 'exists';
        END IF;

        IF item_verdict IS NULL AND cardinality(requests) > 0 THEN
            SELECT
                CASE WHEN kept.body_sha256 = request.body_sha256 THEN 'replay' ELSE 'other request' END,
                kept.execution_id,
                kept.status,
                kept.answer,
                kept.expires_at
            INTO item_verdict, item_other, item_status, item_answer, item_expires
            FROM unnest(requests) AS request
            JOIN idempotency AS kept
                ON kept.tenant_id = request.tenant_id
                AND kept.route = request.route
                AND kept.key_sha256 = request.key_sha256
            WHERE request.execution_id = item.execution_id
                AND kept.expires_at > request.now;
        END IF;

        IF item_verdict IS NULL AND cardinality(messages) > 0 THEN
            SELECT
                CASE WHEN kept.payload_sha256 = message.payload_sha256 THEN 'duplicate' ELSE 'other message' END,
                kept.execution_id
            INTO item_verdict, item_other
            FROM unnest(messages) AS message
            JOIN subscription_dedup AS kept
                ON kept.subscription_id = message.subscription_id
                AND kept.dedup_key = message.dedup_key
            WHERE message.execution_id = item.execution_id
                AND kept.expires_at > message.seen_at;
        END IF;

--end
        IF item_verdict IS NULL AND item.starts THEN
            INSERT INTO execution ({execution_columns})
            VALUES ({item_execution_columns})
            ON CONFLICT (execution_id) DO NOTHING;
            IF NOT FOUND THEN
                item_verdict := 'exists';
            END IF;
        ELSIF item_verdict IS NULL THEN
            UPDATE execution
            SET ({changing_columns}) = ROW ({item_changing_columns})
            WHERE execution.execution_id = item.execution_id;
        END IF;

        IF item_verdict IS NULL THEN
            accepted := accepted || item.execution_id;
--if shared
            IF cardinality(requests) > 0 THEN
                INSERT INTO idempotency ({request_columns})
                SELECT {new_request_columns}
                FROM unnest(requests) AS request
                WHERE request.execution_id = item.execution_id
                ON CONFLICT (tenant_id, route, key_sha256)
                DO UPDATE SET ({request_columns}) = ROW ({excluded_request_columns});
            END IF;
            IF cardinality(messages) > 0 THEN
                INSERT INTO subscription_dedup ({message_columns})
                SELECT {new_message_columns}
                FROM unnest(messages) AS message
                WHERE message.execution_id = item.execution_id
                ON CONFLICT (subscription_id, dedup_key)
                DO UPDATE SET ({message_columns}) = ROW ({excluded_message_columns});
            END IF;
--end
        ELSE
            all_in := FALSE;
            RETURN NEXT;
        END IF;
    END LOOP;

    IF cardinality(accepted) = 0 THEN
        RETURN;
    END IF;

    IF cardinality(issued) > 0 THEN
        INSERT INTO command ({command_columns})
        SELECT {new_command_columns}
        FROM unnest(issued) AS new_command
        WHERE all_in OR new_command.execution_id = ANY (accepted);
    END IF;

    IF cardinality(patches) > 0 THEN
        UPDATE command
        SET status = coalesce(patch.status, command.status),
            held = coalesce(patch.held, command.held),
            lease_token = CASE WHEN patch.ends_lease THEN NULL ELSE command.lease_token END,
            lease_until = CASE WHEN patch.ends_lease THEN NULL ELSE command.lease_until END,
            not_before = CASE WHEN patch.ends_lease THEN patch.not_before ELSE command.not_before END,
            started_at = coalesce(patch.started_at, command.started_at),
            completed_at = coalesce(patch.completed_at, command.completed_at),
            error = coalesce(patch.error, command.error)
        FROM unnest(patches) AS patch
        WHERE command.command_id = patch.command_id
            AND command.execution_id = patch.execution_id
            AND (all_in OR patch.execution_id = ANY (accepted));
    END IF;

    IF cardinality(timers) > 0 THEN
        INSERT INTO timer (execution_id, timer_id, fire_at)
        SELECT new_timer.execution_id, new_timer.timer_id, new_timer.fire_at
        FROM unnest(timers) AS new_timer
        WHERE new_timer.fire_at IS NOT NULL
            AND (all_in OR new_timer.execution_id = ANY (accepted))
        ON CONFLICT (execution_id, timer_id) DO UPDATE SET fire_at = excluded.fire_at;
        DELETE FROM timer
        USING unnest(timers) AS old_timer
        WHERE old_timer.fire_at IS NULL
            AND timer.execution_id = old_timer.execution_id
            AND timer.timer_id = old_timer.timer_id
            AND (all_in OR old_timer.execution_id = ANY (accepted));
    END IF;

    IF cardinality(results) > 0 THEN
        INSERT INTO result_store ({result_columns})
        SELECT {new_result_columns}
        FROM unnest(results) AS new_result
        WHERE all_in OR new_result.execution_id = ANY (accepted);
    END IF;

    -- A row that another writer inserted for the same event is not changed.
    IF cardinality(outgoing) > 0 THEN
        INSERT INTO outbox (
            execution_id, event_id, message_id, subject, available_at, created_at, updated_at,
            bytes
        )
        SELECT
            new_row.execution_id,
            new_row.event_id,
            (SELECT meta.value FROM meta WHERE meta.key = 'log_epoch') || ':' || new_row.message,
            new_row.subject,
            new_row.available_at,
            new_row.available_at,
            new_row.available_at,
            new_row.bytes
        FROM unnest(outgoing) AS new_row
        WHERE all_in OR new_row.execution_id = ANY (accepted)
        ON CONFLICT (execution_id, event_id) DO NOTHING;
    END IF;

--if shared
    IF cardinality(waits) > 0 THEN
        INSERT INTO wait ({wait_columns})
        SELECT {new_wait_columns}
        FROM unnest(waits) AS new_wait
        WHERE new_wait.act = 'put'
            AND (all_in OR new_wait.execution_id = ANY (accepted))
        ON CONFLICT (execution_id, command_id, number)
        DO UPDATE SET ({wait_columns}) = ROW ({excluded_wait_columns});
        DELETE FROM wait
        USING unnest(waits) AS old_wait
        WHERE old_wait.act = 'drop'
            AND wait.execution_id = old_wait.execution_id
            AND wait.command_id = old_wait.command_id
            AND wait.number >= old_wait.number
            AND (all_in OR old_wait.execution_id = ANY (accepted));
    END IF;

    IF cardinality(errands) > 0 THEN
        INSERT INTO errand ({errand_columns})
        SELECT {new_errand_columns}
        FROM unnest(errands) AS new_errand
        WHERE new_errand.act = 'put'
            AND (all_in OR new_errand.execution_id = ANY (accepted))
        ON CONFLICT (execution_id, errand_id)
        DO UPDATE SET ({errand_columns}) = ROW ({excluded_errand_columns});
        DELETE FROM errand
        USING unnest(errands) AS old_errand
        WHERE old_errand.act = 'drop'
            AND errand.execution_id = old_errand.execution_id
            AND errand.errand_id = old_errand.errand_id
            AND (all_in OR old_errand.execution_id = ANY (accepted));
    END IF;

    IF cardinality(slots) > 0 THEN
        INSERT INTO concurrency_slot ({slot_columns})
        SELECT {new_slot_columns}
        FROM unnest(slots) AS new_slot
        WHERE new_slot.act = 'put'
            AND (all_in OR new_slot.execution_id = ANY (accepted))
        ON CONFLICT DO NOTHING;
        UPDATE concurrency_slot
        SET confirmed = TRUE
        FROM unnest(slots) AS used_slot
        WHERE used_slot.act = 'confirm'
            AND concurrency_slot.tenant_id = used_slot.tenant_id
            AND concurrency_slot.slot_key = used_slot.slot_key
            AND concurrency_slot.execution_id = used_slot.execution_id
            AND concurrency_slot.step_name = used_slot.step_name
            AND concurrency_slot.run = used_slot.run
            AND concurrency_slot.held_at IS NOT NULL
            AND (all_in OR used_slot.execution_id = ANY (accepted));
        DELETE FROM concurrency_slot
        USING unnest(slots) AS old_slot
        WHERE old_slot.act = 'drop'
            AND concurrency_slot.tenant_id = old_slot.tenant_id
            AND concurrency_slot.slot_key = old_slot.slot_key
            AND concurrency_slot.execution_id = old_slot.execution_id
            AND concurrency_slot.step_name = old_slot.step_name
            AND concurrency_slot.run = old_slot.run
            AND (all_in OR old_slot.execution_id = ANY (accepted));
    END IF;

    -- Of two results with the same key the later one is stored. Rows are locked in key order.
    IF cardinality(cached) > 0 THEN
        INSERT INTO step_cache ({cache_columns})
        SELECT DISTINCT ON (new_cache.tenant_id, new_cache.scope, new_cache.key_sha256)
            {new_cache_columns}
        FROM unnest(cached) WITH ORDINALITY AS new_cache
        WHERE all_in OR new_cache.of_execution = ANY (accepted)
        ORDER BY
            new_cache.tenant_id,
            new_cache.scope,
            new_cache.key_sha256,
            new_cache.ordinality DESC
        ON CONFLICT (tenant_id, scope, key_sha256)
        DO UPDATE SET ({cache_columns}) = ROW ({excluded_cache_columns});
    END IF;

--end
    -- Events are inserted in the order of the parameter, so the feed keeps the order of an
    -- execution.
    RETURN QUERY
    WITH written AS (
        INSERT INTO event ({event_columns})
        SELECT {new_event_columns}
        FROM unnest(events) AS new_event
        WHERE all_in OR new_event.execution_id = ANY (accepted)
        RETURNING event.execution_id, event.position
    )
    SELECT
        written.execution_id,
        'accepted',
        NULL::BIGINT,
        NULL::BIGINT,
        pg_current_xact_id()::TEXT::BIGINT,
        max(written.position)
--if shared
        , NULL::BIGINT
        , NULL::BIGINT
        , NULL::JSON
        , NULL::TIMESTAMPTZ
--end
    FROM written
    GROUP BY written.execution_id;
END
$append$;
