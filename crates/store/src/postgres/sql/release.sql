-- Releases commands that were not run, so their attempt does not count. A command that is listed
-- twice is released once.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
fence AS ({fences}),
{held},
once AS (
    SELECT DISTINCT ON (command_id) command_id, place, not_before
    FROM held
    ORDER BY command_id, place
),
released AS (
    UPDATE command
    SET status = 'PENDING',
        attempt = greatest(command.attempt - 1, 0),
        lease_token = NULL,
        lease_until = NULL,
        not_before = once.not_before
    FROM once, relaxed
    WHERE command.command_id = once.command_id
        AND relaxed.setting = 'off'
    RETURNING command.command_id
)
SELECT once.place
FROM once
JOIN released USING (command_id)
