-- Extends leases. Commands are locked in the order of their ids, as in all statements.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
fence AS ({fences}),
{held},
extended AS (
    UPDATE command
    SET lease_until = least({until}::timestamptz, command.claimed_at + command.deadline_ms * interval '1 millisecond')
    FROM relaxed
    WHERE command.command_id IN (SELECT command_id FROM held)
        AND relaxed.setting = 'off'
    RETURNING command.command_id, command.lease_until
)
SELECT held.place, extended.lease_until
FROM held
JOIN extended USING (command_id)
