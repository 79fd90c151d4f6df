-- What is kept of steps goes with the execution that it came from, without a look at all of it.
CREATE INDEX step_cache_by_origin ON step_cache (origin_execution_id);
