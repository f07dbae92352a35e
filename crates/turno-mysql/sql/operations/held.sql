-- held: the jobs that a token holds: the answer to a claim whose reply was lost.
-- Takes: the token.
-- Returns: jobs as claim does; next_due_in_ms is NULL.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C5
CREATE PROCEDURE turno.held(IN p_token CHAR(36))
BEGIN
    CALL turno.token_jobs(UNHEX(REPLACE(p_token, '-', '')), NULL, NULL);
END
