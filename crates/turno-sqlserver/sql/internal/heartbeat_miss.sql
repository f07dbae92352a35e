-- heartbeat_miss: what became of a lease that heartbeat could not extend. It waits for nobody.
-- Takes: the proof. Returns: busy, finished or lost.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts
-- Rules: H1, H2
-- DIFFERS: without versions of rows, a row that somebody holds can be seen dirty or not at all. What only a dirty look sees (a row that
--          is held, the record of a completion that has not committed) is busy; finished is what a look past all held rows finds.
CREATE OR ALTER FUNCTION turno.heartbeat_miss(@job bigint, @attempt bigint, @token uniqueidentifier) RETURNS varchar(8)
AS
BEGIN
    DECLARE @hash binary(32) = HASHBYTES('SHA2_256', CONVERT(binary(16), @token));
    IF EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (NOLOCK, FORCESEEK) WHERE j.id = @job AND j.attempt = @attempt AND j.token = @token)
        RETURN 'busy';
    IF EXISTS (SELECT 1 FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, FORCESEEK)
               WHERE f.id = @job AND f.attempt = @attempt AND f.token_hash = @hash)
       OR EXISTS (SELECT 1 FROM turno.attempt a WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, FORCESEEK)
                  WHERE a.job_id = @job AND a.attempt = @attempt AND a.token_hash = @hash)
        RETURN 'finished';
    IF EXISTS (SELECT 1 FROM turno.finished_job f WITH (NOLOCK, FORCESEEK)
               WHERE f.id = @job AND f.attempt = @attempt AND f.token_hash = @hash)
       OR EXISTS (SELECT 1 FROM turno.attempt a WITH (NOLOCK, FORCESEEK)
                  WHERE a.job_id = @job AND a.attempt = @attempt AND a.token_hash = @hash)
       -- A completion that rolled back in the meantime has brought the row back.
       OR EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (NOLOCK, FORCESEEK) WHERE j.id = @job AND j.attempt = @attempt AND j.token = @token)
        RETURN 'busy';
    RETURN 'lost';
END;
