-- Credentials: named in the clear, sealed inside.
CREATE TABLE credential (
    credential_id INTEGER NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    sealed TEXT NOT NULL,
    kid TEXT NOT NULL,
    meta TEXT,
    tags TEXT NOT NULL,
    description TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant_id, name)
) STRICT;
