-- reap_expired: ends expired leases, whoever held them. Each row is locked while its lease is tested, so there is no moment
-- between the decision and the change.
-- Takes: the most rows to touch, the grace in ms after an outage (0: none).
-- Returns: the jobs as a JSON array of objects with job, attempt and state; how many are ready at once; how long the reaper holds back
--          or NULL.
-- Raises: nothing
-- Transaction: joins the caller's, which is at READ COMMITTED
-- Writes: job, attempt, finished_job, reaper
-- Locks: per job its entry in job_lease and its row, in order of the lease's end; skips those that somebody holds
-- Rules: R1, R2, R3, H2
CREATE OR ALTER PROCEDURE turno.reap_expired
    @limit bigint, @grace_ms bigint, @jobs nvarchar(max) OUTPUT, @ready bigint OUTPUT, @holding_for_ms bigint OUTPUT
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @hold datetime2(6), @turn int = 1, @job bigint, @error nvarchar(400), @state varchar(9),
        @run_at datetime2(6);
    DECLARE @lost TABLE (turn int IDENTITY(1, 1) NOT NULL PRIMARY KEY, job bigint NOT NULL, attempt bigint NOT NULL,
        lease_until datetime2(6) NOT NULL, worker varbinary(400), state varchar(9));
    SELECT @jobs = N'[]', @ready = 0, @holding_for_ms = NULL;
    EXEC turno.reaper_hold @grace_ms, @now, @hold OUTPUT;
    IF @hold > @now
    BEGIN
        SET @holding_for_ms = CEILING(DATEDIFF_BIG(microsecond, @now, @hold) / 1000.0);
        RETURN;
    END;
    INSERT INTO @lost (job, attempt, lease_until, worker)
    SELECT TOP (@limit) j.id, j.attempt, j.lease_until, j.worker
    FROM turno.unfinished_job j WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(job_lease), FORCESEEK)
    WHERE j.state = 'running' AND j.lease_until < @now
    ORDER BY j.lease_until, j.id
    OPTION (MAXDOP 1);
    WHILE EXISTS (SELECT 1 FROM @lost WHERE turn = @turn)
    BEGIN
        SELECT @job = l.job, @error = CONCAT(N'the lease expired at ', LEFT(CONVERT(nvarchar(30), l.lease_until, 126), 23), N'Z: worker ',
                                             CONVERT(nvarchar(200), l.worker), N' was lost')
        FROM @lost l WHERE l.turn = @turn;
        EXEC turno.end_attempt @job, 'expire', @error, NULL, NULL, NULL, @now, @state OUTPUT, @run_at OUTPUT;
        UPDATE @lost SET state = @state WHERE turn = @turn;
        SET @ready += IIF(@state = 'ready', 1, 0);
        SET @turn += 1;
    END;
    SET @jobs = COALESCE((SELECT l.job, l.attempt, l.state FROM @lost l ORDER BY l.turn FOR JSON PATH), N'[]');
END;
