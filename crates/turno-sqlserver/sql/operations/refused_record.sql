-- refused_record: writes to the ledger a refusal that happened inside a transaction which therefore rolled back.
-- Takes: the proof, the verb, the result or error that came with it, who sent it.
-- Returns: whether it is refused indeed: nothing is written if the proof is the current one, or the settle was accepted.
-- Raises: TU001, TU002
-- Transaction: joins the caller's, or owns its own; call it on another connection, or after the rollback
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S5, S7
CREATE OR ALTER PROCEDURE turno.refused_record
    @job bigint, @attempt bigint, @token uniqueidentifier, @verb varchar(20), @detail nvarchar(max), @worker nvarchar(4000)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @status varchar(8) = 'already', @state varchar(9), @run_at datetime2(6), @reason nvarchar(1000),
        @sender varbinary(400) = CONVERT(varbinary(400), @worker);
    IF @own = 0
        EXEC turno.join_check N'refused_record';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    IF COALESCE(@verb, '') NOT IN ('complete', 'fail', 'release') OR @job IS NULL OR @attempt IS NULL OR @token IS NULL
        THROW 53101, N'a settle is complete, fail or release, with a proof', 1;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        IF NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (FORCESEEK) WHERE j.id = @job AND j.attempt = @attempt AND j.token = @token)
            EXEC turno.settle_miss @job, @attempt, @token, @verb, @detail, @sender, @status OUTPUT, @state OUTPUT, @run_at OUTPUT,
                @reason OUTPUT;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT CONVERT(bit, IIF(@status = 'already', 0, 1)) AS refused;
END;
