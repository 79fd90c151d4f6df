-- Output of tasks, stored while they run. It is deleted with its execution.
CREATE TABLE task_output (
    execution_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    command_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    iter_index INTEGER,
    task TEXT,
    stdout TEXT NOT NULL,
    stderr TEXT NOT NULL,
    dropped_bytes INTEGER NOT NULL,
    is_last INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    charge INTEGER NOT NULL,
    attempt_charge INTEGER NOT NULL,
    execution_charge INTEGER NOT NULL,
    PRIMARY KEY (execution_id, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX task_output_by_attempt ON task_output (command_id, attempt, chunk);
