-- Credentials: named in the clear, sealed inside.
CREATE TABLE credential (
    credential_id BIGINT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    version BIGINT NOT NULL,
    sealed JSON NOT NULL,
    kid TEXT NOT NULL,
    meta JSON,
    tags JSON NOT NULL,
    description TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    UNIQUE (tenant_id, name)
);
