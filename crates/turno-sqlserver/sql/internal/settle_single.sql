-- settle_single: settles one attempt in the caller's transaction, or in one of its own. A refusal raises and changes nothing.
-- Takes: what settle_row takes.
-- Returns: one row: status done or already; the job's state; when it is due again.
-- Raises: TU001, TU002, TU003, TU004, TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job; enqueue_key if nothing is kept
-- Locks: the job's row
-- Rules: S1, S4, S5
CREATE OR ALTER PROCEDURE turno.settle_single
    @verb varchar(8), @job bigint, @attempt bigint, @token uniqueidentifier, @detail nvarchar(max), @delay_ms bigint,
    @worker nvarchar(4000)
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @status varchar(8), @state varchar(9),
        @run_at datetime2(6), @reason nvarchar(1000), @message nvarchar(1100), @sender varbinary(400) = CONVERT(varbinary(400), @worker);
    IF @own = 0
        EXEC turno.join_check @verb;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    IF @delay_ms NOT BETWEEN IIF(@verb = 'fail', -1, 0) AND 31536000000
        THROW 53101, N'a delay has 0..31536000000 ms, and -1 means no retry', 1;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.settle_row @verb, @job, @attempt, @token, @detail, NULL, @delay_ms, @sender, @now, @status OUTPUT, @state OUTPUT,
            @run_at OUTPUT, @reason OUTPUT;
        SET @message = CONCAT(N'job ', COALESCE(CONVERT(nvarchar(20), @job), N'NULL'), N': ', @reason);
        IF @status = 'gone'
            THROW 53105, @message, 1;
        IF @status = 'refused' AND @reason LIKE N'already settled%'
            THROW 53104, @message, 1;
        IF @status = 'refused'
            THROW 53103, @message, 1;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @status AS status, @state AS state, @run_at AS run_at;
END;
