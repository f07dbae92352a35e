-- ring_all: wakes all sleepers, whatever they wait for, when the transaction commits: a schedule has changed, and is anybody's to fire.
-- Takes: nothing. Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: none before commit
-- Rules: W2
CREATE OR REPLACE FUNCTION turno.ring_all() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM turno.waiting w WHERE w.until > clock_timestamp()) THEN
        PERFORM pg_notify('turno', '');
    END IF;
END $$;
