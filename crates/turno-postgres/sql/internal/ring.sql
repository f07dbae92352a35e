-- ring: wakes sleepers, if there are any, when the transaction commits. NOTIFY takes a lock of the whole cluster at commit, so
-- nobody rings for the deaf. The payload is empty: equal notifications of a transaction are sent once.
-- Takes: queues that have new work. Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: none before commit
-- Rules: W2
CREATE OR REPLACE FUNCTION turno.ring(p_queues text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM turno.waiting w WHERE w.queue = ANY (p_queues) AND w.until > clock_timestamp()) THEN
        PERFORM pg_notify('turno', '');
    END IF;
END $$;
