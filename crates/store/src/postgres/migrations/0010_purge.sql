-- What keeps a month is found without reading all of its executions. Whether one has ended changes with
-- its status only, which is in an index already, so no update of an execution costs more than before.
CREATE INDEX execution_live ON execution (execution_id) WHERE NOT ended;

-- Rows of the outbox that are not published are in the indexes of those that are ready, in flight and
-- dead, and those of a month are found by their executions: every append and claim paid for this one.
DROP INDEX outbox_unpublished;

-- What is kept of steps goes with the execution that it came from.
CREATE INDEX step_cache_by_origin ON step_cache (origin_execution_id);
