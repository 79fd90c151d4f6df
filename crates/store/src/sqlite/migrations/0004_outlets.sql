-- How events leave the store, and how old ones are dropped.

-- What is true of the file as a whole.
CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (key, value) VALUES ('log_epoch', '1');

-- Rows that the store writes have no payload: it is made from the event when the row is claimed. Rows
-- of others may have one. Claims made before an operator sent a row out again are forgiven.
CREATE TABLE outbox (
    outbox_id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id INTEGER NOT NULL CHECK (event_id > 0),
    execution_id INTEGER CHECK (execution_id > 0),
    subject TEXT,
    message_id TEXT NOT NULL,
    payload TEXT,
    payload_codec TEXT NOT NULL DEFAULT 'json',
    status TEXT NOT NULL DEFAULT 'PENDING'
        CHECK (status IN ('PENDING', 'IN_FLIGHT', 'PUBLISHED', 'FAILED', 'DEAD')),
    attempts INTEGER NOT NULL DEFAULT 0,
    forgiven INTEGER NOT NULL DEFAULT 0,
    available_at INTEGER NOT NULL,
    claim_owner TEXT,
    locked_at INTEGER,
    lease_until INTEGER,
    published_at INTEGER,
    dead_at INTEGER,
    discarded_at INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (execution_id, event_id),
    -- What is made from an event is JSON.
    CHECK (payload IS NOT NULL OR payload_codec = 'json')
) STRICT;

CREATE INDEX outbox_ready ON outbox (available_at, outbox_id) WHERE status IN ('PENDING', 'FAILED');
CREATE INDEX outbox_in_flight ON outbox (lease_until, outbox_id) WHERE status = 'IN_FLIGHT';
CREATE INDEX outbox_unpublished ON outbox (execution_id) WHERE status <> 'PUBLISHED' AND discarded_at IS NULL;
CREATE INDEX outbox_published ON outbox (published_at, outbox_id) WHERE status = 'PUBLISHED';
CREATE INDEX outbox_dead ON outbox (outbox_id) WHERE status = 'DEAD';

-- What could not be taken or published, each once for a source and a reason.
CREATE TABLE outbox_quarantine (
    quarantine_id INTEGER NOT NULL PRIMARY KEY,
    source TEXT NOT NULL,
    raw TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    raw_sha256 BLOB NOT NULL,
    UNIQUE (source, raw_sha256, code)
) STRICT;

-- Where streams stand. The epoch rises with every change of hands.
CREATE TABLE stream_cursor (
    name TEXT NOT NULL PRIMARY KEY,
    tx INTEGER NOT NULL,
    position INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    lease_until INTEGER,
    log_epoch INTEGER NOT NULL,
    stream_created_at INTEGER,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Ranges whose rows in other tables are gone too.
ALTER TABLE retention_range ADD COLUMN cleaned_at INTEGER;

-- Commands that have ended, for those who purge them.
CREATE INDEX command_ended ON command (completed_at, command_id) WHERE completed_at IS NOT NULL;

CREATE VIEW event_log AS SELECT * FROM event;
