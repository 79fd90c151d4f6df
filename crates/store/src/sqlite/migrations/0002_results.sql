-- Values that are too large for an event. They are read by execution and id, and go with their
-- execution. The table has row ids, since large rows make for a bad tree.
CREATE TABLE result_store (
    execution_id INTEGER NOT NULL,
    result_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    media_type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (execution_id, result_id)
) STRICT;

-- The commands of an execution.
CREATE INDEX command_by_execution ON command (execution_id, command_id);
