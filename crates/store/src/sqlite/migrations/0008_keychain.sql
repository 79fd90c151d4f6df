-- What workers resolved for playbooks, kept for a while: found by its key, sealed inside.
CREATE TABLE keychain (
    keychain_id INTEGER NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    name TEXT NOT NULL,
    catalog_id INTEGER NOT NULL,
    scope TEXT NOT NULL,
    execution_id INTEGER,
    version INTEGER NOT NULL,
    sealed TEXT NOT NULL,
    kid TEXT NOT NULL,
    auto_renew INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (tenant_id, cache_key)
) STRICT;

CREATE INDEX keychain_of_catalog ON keychain (tenant_id, catalog_id, keychain_id);
CREATE INDEX keychain_over ON keychain (expires_at);
