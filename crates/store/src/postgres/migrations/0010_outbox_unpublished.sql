-- Rows of the outbox that are not published are in the indexes of those that are ready, in flight and
-- dead, and those of a month are found by their executions: every append and claim paid for this one.
DROP INDEX outbox_unpublished;
