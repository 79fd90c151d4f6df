-- Both locks are had before either index is built, so that a wait for one of them costs no work.
LOCK TABLE step_cache, execution IN SHARE MODE;

-- What is kept of steps goes with the execution that it came from.
CREATE INDEX step_cache_by_origin ON step_cache (origin_execution_id);

-- What keeps a month is found without reading all of its executions. Whether one has ended changes with
-- its status only, which is in an index already, so no update of an execution costs more than before.
CREATE INDEX execution_live ON execution (execution_id) WHERE NOT ended;
