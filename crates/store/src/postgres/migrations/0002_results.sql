-- Values that are too large for an event. They are read by execution and id, and go with their
-- execution.
CREATE TABLE result_store (
    execution_id BIGINT NOT NULL,
    result_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    data BYTEA NOT NULL,
    sha256 BYTEA NOT NULL,
    media_type TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, result_id)
);

-- The commands of an execution.
CREATE INDEX command_by_execution ON command (execution_id, command_id);
