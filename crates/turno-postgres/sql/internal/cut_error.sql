-- cut_error: an error text as it is stored: at most 8192 bytes, cut at a character boundary.
-- Takes: the text. Returns: the text.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F6
CREATE OR REPLACE FUNCTION turno.cut_error(p_error text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    v_cut text := left(p_error, 8192);
BEGIN
    -- A character has at most four bytes, so removing a quarter of the excess never removes too much.
    WHILE octet_length(v_cut) > 8192 LOOP
        v_cut := left(v_cut, length(v_cut) - (octet_length(v_cut) - 8192 + 3) / 4);
    END LOOP;
    RETURN v_cut;
END $$;
