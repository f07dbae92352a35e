-- refused_record: writes to the ledger a refusal that happened inside a transaction which therefore rolled back.
-- Takes: the proof, the verb, the result or error that came with it, who sent it.
-- Returns: whether it is refused indeed: nothing is written if the proof is the current one, or the settle was accepted.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own; call it on another connection, or after the rollback
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S5, S7
CREATE OR REPLACE FUNCTION turno.refused_record(
    p_job bigint, p_attempt bigint, p_token uuid, p_verb text, p_detail text DEFAULT NULL, p_worker text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    IF p_verb IS NULL OR p_verb NOT IN ('complete', 'fail', 'release') OR num_nulls(p_job, p_attempt, p_token) > 0 THEN
        RAISE EXCEPTION 'a settle is complete, fail or release, with a proof' USING ERRCODE = 'TU001';
    END IF;
    IF EXISTS (SELECT FROM turno.job j WHERE j.id = p_job AND j.attempt = p_attempt AND j.token = p_token) THEN
        RETURN false;
    END IF;
    RETURN (SELECT m.status <> 'already' FROM turno.settle_miss(p_job, p_attempt, p_token, p_verb, p_detail, p_worker) m);
END $$;
