-- Output of tasks, stored while they run. It is deleted with its execution.
CREATE TABLE task_output (
    execution_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    command_id BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    chunk BIGINT NOT NULL,
    step_name TEXT NOT NULL,
    iter_index BIGINT,
    task TEXT,
    stdout TEXT NOT NULL,
    stderr TEXT NOT NULL,
    dropped_bytes BIGINT NOT NULL,
    is_last BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    charge BIGINT NOT NULL,
    attempt_charge BIGINT NOT NULL,
    execution_charge BIGINT NOT NULL,
    PRIMARY KEY (execution_id, position)
);

CREATE UNIQUE INDEX task_output_by_attempt ON task_output (command_id, attempt, chunk);
