-- The live descendants of an execution are counted before another one starts.
CREATE INDEX execution_by_root ON execution (root_execution_id) WHERE root_execution_id IS NOT NULL AND NOT ended;
