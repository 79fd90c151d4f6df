-- Tables of the embedded store. Times are microseconds since the epoch, JSON is canonical text.

-- The log. Positions are never used again, so the feed never meets an old one.
CREATE TABLE event (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id INTEGER NOT NULL,
    event_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    status TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    event_time INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    ingest_time INTEGER NOT NULL,
    node_id TEXT,
    node_name TEXT,
    node_type TEXT,
    catalog_id INTEGER,
    parent_event_id INTEGER,
    parent_execution_id INTEGER,
    prev_event_id INTEGER,
    command_id INTEGER,
    stage_id TEXT,
    frame_id TEXT,
    aggregate_type TEXT,
    aggregate_id TEXT,
    stream_id TEXT,
    stream_version INTEGER,
    schema_name TEXT,
    schema_version INTEGER NOT NULL,
    duration REAL,
    context TEXT,
    result TEXT,
    meta TEXT,
    payload_ref TEXT,
    error TEXT,
    stack_trace TEXT,
    worker_id TEXT,
    producer TEXT,
    causation_id TEXT,
    correlation_id TEXT,
    idempotency_key TEXT,
    current_index INTEGER,
    current_item TEXT,
    context_key TEXT,
    context_value TEXT,
    distributed_state TEXT,
    trace_component TEXT,
    extra TEXT,
    envelope_checksum BLOB,
    chain BLOB NOT NULL,
    UNIQUE (execution_id, event_id),
    UNIQUE (execution_id, seq)
) STRICT;

-- The optimistic lock and what lists show, derived from the log.
CREATE TABLE execution (
    execution_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    chain_head BLOB NOT NULL,
    last_ingest_time INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    status TEXT NOT NULL,
    paused INTEGER NOT NULL,
    last_node_name TEXT,
    ended_at INTEGER,
    error TEXT,
    last_event_id INTEGER NOT NULL,
    last_event_type TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    catalog_id INTEGER,
    path TEXT,
    playbook_version INTEGER,
    definition_sha256 BLOB,
    parent_execution_id INTEGER,
    root_execution_id INTEGER,
    forked_from_id INTEGER,
    forked_from_seq INTEGER,
    origin TEXT NOT NULL,
    pool TEXT NOT NULL,
    priority INTEGER NOT NULL,
    labels TEXT,
    started_at INTEGER NOT NULL,
    PRIMARY KEY (execution_id)
) STRICT;

CREATE INDEX execution_by_start ON execution (tenant_id, started_at DESC, execution_id DESC);
CREATE INDEX execution_by_status ON execution (tenant_id, status, started_at DESC, execution_id DESC);
CREATE INDEX execution_by_parent ON execution (parent_execution_id) WHERE parent_execution_id IS NOT NULL;

-- The queue. The context of a command is in its event.
CREATE TABLE command (
    command_id INTEGER NOT NULL,
    execution_id INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    iter_index INTEGER,
    frame_no INTEGER,
    segment INTEGER NOT NULL,
    server_retry INTEGER NOT NULL,
    tool_kind TEXT NOT NULL,
    pool TEXT NOT NULL,
    priority INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    deadline_ms INTEGER,
    not_before INTEGER,
    held INTEGER NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    worker_id TEXT,
    lease_token BLOB,
    lease_until INTEGER,
    claimed_at INTEGER,
    started_at INTEGER,
    completed_at INTEGER,
    error TEXT,
    PRIMARY KEY (command_id)
) STRICT;

CREATE INDEX command_ready ON command (pool, priority DESC, command_id) WHERE status = 'PENDING' AND held = 0;
CREATE INDEX command_leased ON command (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE timer (
    execution_id INTEGER NOT NULL,
    timer_id TEXT NOT NULL,
    fire_at INTEGER NOT NULL,
    PRIMARY KEY (execution_id, timer_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX timer_due ON timer (fire_at, execution_id, timer_id);

CREATE TABLE projection_snapshot (
    execution_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    fold_version INTEGER NOT NULL,
    version INTEGER NOT NULL,
    chain_head BLOB NOT NULL,
    last_ingest_time INTEGER NOT NULL,
    state BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (execution_id, kind, fold_version, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE catalog (
    catalog_id INTEGER NOT NULL,
    tenant_id TEXT NOT NULL,
    path TEXT NOT NULL,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    meta TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (catalog_id),
    UNIQUE (tenant_id, path, version)
) STRICT;

CREATE TABLE runtime (
    runtime_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    uri TEXT,
    detail TEXT,
    heartbeat INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (runtime_id),
    UNIQUE (kind, name)
) STRICT;

-- Apart from the processes: its marks must outlive them, or ids would repeat.
CREATE TABLE machine (
    machine_id INTEGER NOT NULL,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    id_high_water INTEGER NOT NULL,
    PRIMARY KEY (machine_id)
) STRICT;

-- Ranges of execution ids that retention has dropped: lo belongs to a range, hi does not.
CREATE TABLE retention_range (
    lo INTEGER NOT NULL PRIMARY KEY,
    hi INTEGER NOT NULL,
    dropped_at INTEGER NOT NULL
) STRICT;
