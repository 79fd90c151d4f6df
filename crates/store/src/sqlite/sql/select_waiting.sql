-- First commands that may be leased. The condition on status and held matches that of the index.
SELECT command_id, execution_id, priority
FROM command
WHERE pool = ?1
    AND status = 'PENDING'
    AND held = 0
    AND (not_before IS NULL OR not_before <= ?2)
    AND (?3 IS NULL OR tool_kind IN (SELECT value FROM json_each(?3)))
ORDER BY priority DESC, command_id
LIMIT ?4
