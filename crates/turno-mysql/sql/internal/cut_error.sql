-- cut_error: an error text as it is stored: at most 8192 bytes, cut at a character boundary.
-- Takes: the text, its length in bytes before a client cut it or NULL. Returns: both as they are stored.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F6
CREATE PROCEDURE turno.cut_error(INOUT p_error LONGTEXT, INOUT p_error_bytes BIGINT)
BEGIN
    SET p_error_bytes = COALESCE(p_error_bytes, LENGTH(p_error));
    SET p_error = LEFT(p_error, 8192);
    -- A character has at most four bytes, so removing a quarter of the excess never removes too much.
    WHILE LENGTH(p_error) > 8192 DO
        SET p_error = LEFT(p_error, CHAR_LENGTH(p_error) - (LENGTH(p_error) - 8192 + 3) DIV 4);
    END WHILE;
END
