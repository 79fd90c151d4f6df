-- Who may come in, and what was done that somebody may ask about.

-- A token is found by its prefix and known by the digest of its secret.
CREATE TABLE api_token (
    token_id BIGINT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL COLLATE "C",
    organization_id TEXT NOT NULL,
    prefix TEXT NOT NULL COLLATE "C" UNIQUE,
    sha256 BYTEA NOT NULL,
    name TEXT NOT NULL,
    scopes JSON NOT NULL,
    pools JSON,
    path_globs JSON,
    created_at TIMESTAMPTZ NOT NULL,
    created_by TEXT NOT NULL,
    expires_at TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ
);

CREATE INDEX api_token_of_tenant ON api_token (tenant_id, token_id);

-- Each entry is linked to the one before it of the same tenant, which seq numbers.
CREATE TABLE audit (
    audit_id BIGINT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL COLLATE "C",
    seq BIGINT NOT NULL,
    occurred_at TIMESTAMPTZ NOT NULL,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    target TEXT,
    address TEXT,
    outcome TEXT NOT NULL,
    detail JSON,
    chain BYTEA NOT NULL,
    UNIQUE (tenant_id, seq)
);
