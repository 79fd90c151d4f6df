-- Grants the lease of one command, if the command is leasable.
UPDATE command
SET status = 'CLAIMED',
    attempt = command.attempt + 1,
    worker_id = $3,
    lease_token = $4,
    lease_until = least($5::timestamptz, $2::timestamptz + command.deadline_ms * interval '1 millisecond'),
    claimed_at = $2
WHERE command_id = $1
    AND status = 'PENDING'
    AND NOT held
    AND (not_before IS NULL OR not_before <= $2::timestamptz)
RETURNING {command_columns}
