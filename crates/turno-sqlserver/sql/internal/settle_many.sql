-- settle_many: ends attempts, complete by a statement for each table, the others one by one. A refusal is an answer, and commits with
-- its row in the ledger.
-- Takes: the verb, the batch, who sends it.
-- Returns: per proof its place, the job, status done, already, refused or gone, the job's state, when it is due again, the reason of a
--          refusal.
-- Raises: TU001, TU002
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job, refused; enqueue_key if nothing is kept
-- Locks: job rows in id order
-- Rules: S1, S3, S4, S6, S7, O2, O5
CREATE OR ALTER PROCEDURE turno.settle_many @verb varchar(8), @settles nvarchar(max), @worker nvarchar(4000)
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @sender varbinary(400), @done nvarchar(max) = N'[]';
    DECLARE @rows TABLE (
        turn int NOT NULL PRIMARY KEY, place int NOT NULL, job bigint, attempt bigint, token uniqueidentifier, detail nvarchar(max),
        error_bytes bigint, delay_ms bigint, status varchar(8), state varchar(9), run_at datetime2(6), reason nvarchar(1000));
    DECLARE @turn int, @job bigint, @attempt bigint, @token uniqueidentifier, @detail nvarchar(max), @bytes bigint, @delay_ms bigint,
        @status varchar(8), @state varchar(9), @run_at datetime2(6), @reason nvarchar(1000);
    IF @own = 0
        EXEC turno.join_check @verb;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.settle_check @settles;
    SET @sender = CONVERT(varbinary(400), @worker);
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        IF @verb = 'complete'
            EXEC turno.complete_all @settles, @now, @done OUTPUT;
        INSERT INTO @rows (turn, place, job, attempt, token, detail, error_bytes, delay_ms, status, state)
        SELECT ROW_NUMBER() OVER (ORDER BY r.job, r.place), r.place, r.job, r.attempt, r.token, IIF(d.[value] IS NULL, r.detail, NULL),
               r.error_bytes, r.delay_ms, IIF(d.[value] IS NULL, NULL, 'done'), IIF(d.[value] IS NULL, NULL, 'succeeded')
        FROM turno.settle_shape(@settles) r LEFT JOIN OPENJSON(@done) d ON CONVERT(int, d.[value]) = r.place;
        SELECT @turn = MIN(turn) FROM @rows WHERE status IS NULL;
        WHILE @turn IS NOT NULL
        BEGIN
            SELECT @job = job, @attempt = attempt, @token = token, @detail = detail, @bytes = error_bytes, @delay_ms = delay_ms
            FROM @rows WHERE turn = @turn;
            EXEC turno.settle_row @verb, @job, @attempt, @token, @detail, @bytes, @delay_ms, @sender, @now, @status OUTPUT, @state OUTPUT,
                @run_at OUTPUT, @reason OUTPUT;
            UPDATE @rows SET status = @status, state = @state, run_at = @run_at, reason = @reason WHERE turn = @turn;
            SELECT @turn = MIN(turn) FROM @rows WHERE status IS NULL AND turn > @turn;
        END;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT r.place, r.job AS job_id, r.status, r.state, r.run_at, r.reason FROM @rows r ORDER BY r.place;
END;
