-- Ends the leases of a worker. Commands are locked in the order of their ids, as in all statements.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
held AS MATERIALIZED (
    SELECT command_id
    FROM command
    WHERE worker_id = $1
        AND lease_until > $2::timestamptz
        AND EXISTS (
            SELECT FROM execution
            WHERE execution.execution_id = command.execution_id AND execution.tenant_id = $3
        )
    ORDER BY command_id
    FOR NO KEY UPDATE
)
UPDATE command
SET lease_until = $2
FROM relaxed
WHERE command.command_id IN (SELECT command_id FROM held)
    AND relaxed.setting = 'off'
RETURNING command.command_id
