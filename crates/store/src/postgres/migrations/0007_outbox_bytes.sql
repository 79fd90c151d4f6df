-- About how large the message of a row is. Whoever did not say it counts as large, so that a claim of
-- such rows takes fewer at once.
ALTER TABLE outbox ADD COLUMN bytes BIGINT NOT NULL DEFAULT 65536;
