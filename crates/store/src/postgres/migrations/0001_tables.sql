-- Tables of the clustered store, in the schema that the session's search path names.

-- The log, in one partition for every month that executions were started in. There is no default
-- partition: a month that is missing is an error, and is then made.
CREATE TABLE event (
    position BIGINT GENERATED ALWAYS AS IDENTITY,
    tx XID8 NOT NULL DEFAULT pg_current_xact_id(),
    execution_id BIGINT NOT NULL,
    event_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    status TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    event_time TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    ingest_time TIMESTAMPTZ NOT NULL,
    node_id TEXT,
    node_name TEXT,
    node_type TEXT,
    catalog_id BIGINT,
    parent_event_id BIGINT,
    parent_execution_id BIGINT,
    prev_event_id BIGINT,
    command_id BIGINT,
    stage_id TEXT,
    frame_id TEXT,
    aggregate_type TEXT,
    aggregate_id TEXT,
    stream_id TEXT,
    stream_version BIGINT,
    schema_name TEXT,
    schema_version BIGINT NOT NULL,
    duration DOUBLE PRECISION,
    context JSON,
    result JSON,
    meta JSON,
    payload_ref JSON,
    error TEXT,
    stack_trace TEXT,
    worker_id TEXT,
    producer TEXT,
    causation_id TEXT,
    correlation_id TEXT,
    idempotency_key TEXT,
    current_index BIGINT,
    current_item TEXT,
    context_key TEXT,
    context_value TEXT,
    distributed_state TEXT,
    trace_component JSON,
    extra JSON,
    envelope_checksum BYTEA,
    chain BYTEA NOT NULL,
    PRIMARY KEY (execution_id, event_id),
    UNIQUE (execution_id, seq)
) PARTITION BY RANGE (execution_id);

CREATE INDEX event_feed ON event (tx, position);

-- The optimistic lock and what lists show, derived from the log.
CREATE TABLE execution (
    execution_id BIGINT NOT NULL,
    version BIGINT NOT NULL,
    chain_head BYTEA NOT NULL,
    last_ingest_time TIMESTAMPTZ NOT NULL,
    ended BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    paused BOOLEAN NOT NULL,
    last_node_name TEXT,
    ended_at TIMESTAMPTZ,
    error TEXT,
    last_event_id BIGINT NOT NULL,
    last_event_type TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    catalog_id BIGINT,
    path TEXT,
    playbook_version BIGINT,
    definition_sha256 BYTEA,
    parent_execution_id BIGINT,
    root_execution_id BIGINT,
    forked_from_id BIGINT,
    forked_from_seq BIGINT,
    origin TEXT NOT NULL,
    pool TEXT NOT NULL,
    priority BIGINT NOT NULL,
    labels JSON,
    started_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id)
) WITH (fillfactor = 70);

CREATE INDEX execution_by_start ON execution (tenant_id, started_at DESC, execution_id DESC);
CREATE INDEX execution_by_status ON execution (tenant_id, status, started_at DESC, execution_id DESC);
CREATE INDEX execution_by_parent ON execution (parent_execution_id) WHERE parent_execution_id IS NOT NULL;

-- The queue. The context of a command is in its event.
CREATE TABLE command (
    command_id BIGINT NOT NULL,
    execution_id BIGINT NOT NULL,
    step_name TEXT NOT NULL,
    run BIGINT NOT NULL,
    iter_index BIGINT,
    frame_no BIGINT,
    segment BIGINT NOT NULL,
    server_retry BIGINT NOT NULL,
    tool_kind TEXT NOT NULL,
    pool TEXT NOT NULL,
    priority BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    deadline_ms BIGINT,
    not_before TIMESTAMPTZ,
    held BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    worker_id TEXT,
    lease_token BYTEA,
    lease_until TIMESTAMPTZ,
    claimed_at TIMESTAMPTZ,
    started_at TIMESTAMPTZ,
    completed_at TIMESTAMPTZ,
    error TEXT,
    PRIMARY KEY (command_id)
) WITH (fillfactor = 70);

CREATE INDEX command_ready ON command (pool, priority DESC, command_id) WHERE status = 'PENDING' AND NOT held;
CREATE INDEX command_leased ON command (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE timer (
    execution_id BIGINT NOT NULL,
    timer_id TEXT NOT NULL COLLATE "C",
    fire_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, timer_id)
);

CREATE INDEX timer_due ON timer (fire_at, execution_id, timer_id);

CREATE TABLE projection_snapshot (
    execution_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    fold_version BIGINT NOT NULL,
    version BIGINT NOT NULL,
    chain_head BYTEA NOT NULL,
    last_ingest_time TIMESTAMPTZ NOT NULL,
    state BYTEA NOT NULL,
    checksum BYTEA NOT NULL,
    PRIMARY KEY (execution_id, kind, fold_version, version)
);

CREATE TABLE catalog (
    catalog_id BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    path TEXT NOT NULL COLLATE "C",
    version BIGINT NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    sha256 BYTEA NOT NULL,
    meta JSON,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (catalog_id),
    UNIQUE (tenant_id, path, version)
);

CREATE TABLE runtime (
    runtime_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL COLLATE "C",
    uri TEXT,
    detail JSON,
    heartbeat TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (runtime_id),
    UNIQUE (kind, name)
);

-- Apart from the processes: its marks must outlive them, or ids would repeat.
CREATE TABLE machine (
    machine_id BIGINT NOT NULL,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL,
    id_high_water BIGINT NOT NULL,
    PRIMARY KEY (machine_id)
);

-- Ranges of execution ids that retention has dropped: lo belongs to a range, hi does not.
CREATE TABLE retention_range (
    lo BIGINT NOT NULL PRIMARY KEY,
    hi BIGINT NOT NULL,
    dropped_at TIMESTAMPTZ NOT NULL
);
