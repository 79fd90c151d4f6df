-- What workers resolved for playbooks, kept for a while: found by its key, sealed inside.
CREATE TABLE keychain (
    keychain_id BIGINT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    name TEXT NOT NULL,
    catalog_id BIGINT NOT NULL,
    scope TEXT NOT NULL,
    execution_id BIGINT,
    version BIGINT NOT NULL,
    sealed JSON NOT NULL,
    kid TEXT NOT NULL,
    auto_renew BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    UNIQUE (tenant_id, cache_key)
);

CREATE INDEX keychain_of_catalog ON keychain (tenant_id, catalog_id, keychain_id);
CREATE INDEX keychain_over ON keychain (expires_at);
