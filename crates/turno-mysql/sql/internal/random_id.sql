-- random_id: a random UUID. The servers' own UUID() tells time and place, and one of them has no random bytes.
-- Takes: nothing. Returns: 16 bytes, of version 4.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: X1
CREATE PROCEDURE turno.random_id(OUT p_id BINARY(16))
BEGIN
    DECLARE v_hex CHAR(64) CHARACTER SET ascii DEFAULT SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID()), 256);
    SET p_id = UNHEX(CONCAT(LEFT(v_hex, 12), '4', SUBSTR(v_hex, 14, 3), '8', SUBSTR(v_hex, 18, 15)));
END
