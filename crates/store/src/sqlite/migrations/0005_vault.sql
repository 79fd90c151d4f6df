-- Who may come in, and what was done that somebody may ask about.

-- A token is found by its prefix and known by the digest of its secret.
CREATE TABLE api_token (
    token_id INTEGER NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    prefix TEXT NOT NULL UNIQUE,
    sha256 BLOB NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    pools TEXT,
    path_globs TEXT,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE INDEX api_token_of_tenant ON api_token (tenant_id, token_id);

-- Each entry is linked to the one before it of the same tenant, which seq numbers.
CREATE TABLE audit (
    audit_id INTEGER NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    occurred_at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    target TEXT,
    address TEXT,
    outcome TEXT NOT NULL,
    detail TEXT,
    chain BLOB NOT NULL,
    UNIQUE (tenant_id, seq)
) STRICT;
