-- own_transaction: refuses to run inside a transaction that the caller has written in, or at another isolation level than
-- READ COMMITTED, which alone sees what committed while a statement waited.
-- Takes: the operation's name, for the message. Returns: nothing.
-- Raises: TU002
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C10
-- DIFFERS: a PostgreSQL function cannot see whether it is in a transaction block. It sees whether that has written, which is
--          what makes holding job rows until its end harmful.
CREATE OR REPLACE FUNCTION turno.own_transaction(p_operation text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% runs at READ COMMITTED, not at %', p_operation, upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'TU002';
    END IF;
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION '% refuses to join a transaction that has already written', p_operation USING ERRCODE = 'TU002';
    END IF;
END $$;
