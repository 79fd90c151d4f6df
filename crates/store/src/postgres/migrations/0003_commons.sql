-- What executions share with each other and with the world.

-- One row for each name that is awaited.
CREATE TABLE wait (
    execution_id BIGINT NOT NULL,
    command_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    tenant_id TEXT NOT NULL COLLATE "C",
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    match_key TEXT,
    step_name TEXT NOT NULL COLLATE "C",
    iter_index BIGINT,
    until TIMESTAMPTZ,
    detail JSON,
    since TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, command_id, number)
);

CREATE INDEX wait_by_name ON wait (tenant_id, name, execution_id, command_id, number);
CREATE INDEX wait_for_people ON wait (tenant_id, execution_id, command_id) WHERE kind = 'approval' AND number = 0;

-- What the server owes since an append.
CREATE TABLE errand (
    execution_id BIGINT NOT NULL,
    errand_id TEXT NOT NULL COLLATE "C",
    body JSON,
    due_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, errand_id)
);

CREATE INDEX errand_due ON errand (due_at, execution_id, errand_id);

-- An execution as a whole has no step and no run. A slot without a time of its grant waits.
CREATE TABLE concurrency_slot (
    tenant_id TEXT NOT NULL COLLATE "C",
    slot_key TEXT NOT NULL COLLATE "C",
    execution_id BIGINT NOT NULL,
    step_name TEXT NOT NULL COLLATE "C",
    run BIGINT NOT NULL,
    slot_limit BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    arrived_at TIMESTAMPTZ NOT NULL,
    held_at TIMESTAMPTZ,
    confirmed BOOLEAN NOT NULL,
    PRIMARY KEY (tenant_id, slot_key, execution_id, step_name, run)
);

CREATE INDEX slot_waiting ON concurrency_slot (tenant_id, slot_key, priority DESC, arrived_at, execution_id, step_name, run) WHERE held_at IS NULL;
CREATE INDEX slot_held ON concurrency_slot (tenant_id, slot_key, held_at) WHERE held_at IS NOT NULL;
CREATE INDEX slot_unconfirmed ON concurrency_slot (held_at) WHERE held_at IS NOT NULL AND NOT confirmed;

CREATE TABLE step_cache (
    tenant_id TEXT NOT NULL COLLATE "C",
    scope TEXT NOT NULL,
    key_sha256 BYTEA NOT NULL,
    result JSON,
    result_ref JSON,
    origin_execution_id BIGINT NOT NULL,
    origin_seq BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, scope, key_sha256)
);

CREATE INDEX step_cache_over ON step_cache (expires_at);

-- A key of more than 200 bytes is its digest; the prefix is for people.
CREATE TABLE subscription_dedup (
    subscription_id BIGINT NOT NULL,
    dedup_key TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    payload_sha256 BYTEA NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    tenant_id TEXT NOT NULL COLLATE "C",
    key_prefix TEXT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (subscription_id, dedup_key)
);

CREATE INDEX subscription_dedup_seen ON subscription_dedup (subscription_id, seen_at);
CREATE INDEX subscription_dedup_over ON subscription_dedup (expires_at);

CREATE TABLE idempotency (
    tenant_id TEXT NOT NULL COLLATE "C",
    route TEXT NOT NULL,
    key_sha256 BYTEA NOT NULL,
    body_sha256 BYTEA NOT NULL,
    status BIGINT NOT NULL,
    answer JSON,
    execution_id BIGINT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, route, key_sha256)
);

CREATE INDEX idempotency_over ON idempotency (expires_at);

-- Names and keys of any length, and beside them the short forms that they are found by.
CREATE TABLE signal_broadcast (
    signal_id BIGINT NOT NULL,
    tenant_id TEXT NOT NULL COLLATE "C",
    name TEXT NOT NULL,
    signal_key TEXT,
    payload JSON,
    actor TEXT,
    received_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    match_name TEXT NOT NULL,
    match_key TEXT,
    PRIMARY KEY (signal_id)
);

CREATE INDEX signal_broadcast_by_name ON signal_broadcast (tenant_id, match_name, received_at, signal_id);
CREATE INDEX signal_broadcast_by_key ON signal_broadcast (tenant_id, match_name, match_key, received_at, signal_id);
CREATE INDEX signal_broadcast_over ON signal_broadcast (expires_at);

CREATE TABLE transient (
    execution_id BIGINT NOT NULL,
    var_name TEXT NOT NULL COLLATE "C",
    var_type TEXT NOT NULL,
    var_value JSON,
    source_step TEXT,
    set_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, var_name)
);

-- Results that come by themselves. One in a file has no data here.
ALTER TABLE result_store ADD COLUMN scope TEXT;
ALTER TABLE result_store ADD COLUMN source_step TEXT;
ALTER TABLE result_store ADD COLUMN expires_at TIMESTAMPTZ;
ALTER TABLE result_store ADD COLUMN object_key TEXT;

CREATE INDEX result_over ON result_store (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX result_in_file ON result_store (object_key) WHERE object_key IS NOT NULL;

-- A path is archived as a whole: all of its versions say so.
ALTER TABLE catalog ADD COLUMN archived_at TIMESTAMPTZ;

-- Open children, in the order of their ids.
DROP INDEX execution_by_parent;
CREATE INDEX execution_by_parent ON execution (parent_execution_id, execution_id) WHERE parent_execution_id IS NOT NULL;
