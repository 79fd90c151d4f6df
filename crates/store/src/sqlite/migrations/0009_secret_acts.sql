-- What an act of the trail did to a secret. Entries of other acts have none of it.
ALTER TABLE audit ADD COLUMN operation TEXT;
ALTER TABLE audit ADD COLUMN credential TEXT;
ALTER TABLE audit ADD COLUMN worker_id TEXT;
ALTER TABLE audit ADD COLUMN execution_id INTEGER;
ALTER TABLE audit ADD COLUMN parent_execution_id INTEGER;
ALTER TABLE audit ADD COLUMN key_id TEXT;

CREATE INDEX audit_secret ON audit (occurred_at, audit_id) WHERE operation IS NOT NULL;
CREATE INDEX audit_credential ON audit (credential, occurred_at, audit_id) WHERE operation IS NOT NULL;
CREATE INDEX audit_execution ON audit (execution_id, occurred_at, audit_id) WHERE operation IS NOT NULL;
