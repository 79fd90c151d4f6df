-- The installation's chain of anchors, which records the heads of logs.
CREATE TABLE anchor (
    anchor_id BIGINT NOT NULL PRIMARY KEY,
    content TEXT NOT NULL
);

-- Proof that a server with the installation's key wrote the token.
ALTER TABLE api_token ADD COLUMN seal BYTEA;
