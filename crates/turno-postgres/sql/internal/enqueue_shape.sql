-- enqueue_shape: refuses columns that do not fit together. A row that had no queue, or a column that was longer than the queues, would
-- be lost in silence.
-- Takes: the queues; the lengths of the other columns (NULL: the column is absent), kinds and payloads first; where each of them ends.
-- Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E7, E9
CREATE OR REPLACE FUNCTION turno.enqueue_shape(p_queues text[], p_lengths integer[], p_ends integer[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    v_length integer := coalesce(cardinality(p_queues), 0);
BEGIN
    IF v_length > 100000 THEN
        RAISE EXCEPTION 'one call enqueues at most 100000 jobs, not %', v_length USING ERRCODE = 'TU001';
    END IF;
    IF v_length > 0 AND (array_ndims(p_queues) <> 1 OR array_lower(p_queues, 1) <> 1 OR array_position(p_queues, NULL) IS NOT NULL) THEN
        RAISE EXCEPTION 'queues is one list of names, without NULL' USING ERRCODE = 'TU001';
    END IF;
    IF p_lengths[1] IS NULL OR p_lengths[2] IS NULL OR v_length <> ANY (p_lengths) OR v_length <> ANY (p_ends) THEN
        RAISE EXCEPTION 'kinds, payloads and every other column have as many elements as queues, %, counted from 1', v_length
            USING ERRCODE = 'TU001';
    END IF;
END $$;
