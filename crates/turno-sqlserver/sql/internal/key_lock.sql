-- key_lock: waits until nobody else is enqueueing, or retrying, a job with this key, and keeps others waiting until the transaction
-- ends. Every insert of a key takes this lock first, so a duplicate key is seen before it is an error.
-- Takes: which key ('i' idempotency, 'u' unique), the queue, the key. Returns: nothing.
-- Raises: 53107 if the lock cannot be had: a deadlock (the transaction is lost), or the session's LOCK_TIMEOUT
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: an application lock of this schema, kind of key, queue and key
-- Rules: E4, E5, P3
-- DIFFERS: a duplicate-key error dooms the caller's transaction, so NOT EXISTS must hold until the commit. HOLDLOCK would do that by
--          locking the gap between two keys: enqueues of other keys would wait for this caller's transaction, two of them could
--          deadlock, and with UPDLOCK the worker that completes the found job would wait, too. This lock is of one key alone.
CREATE OR ALTER PROCEDURE turno.key_lock @kind nchar(1), @queue varbinary(400), @key varbinary(1024)
AS
BEGIN
    DECLARE @resource nvarchar(255) = N'turno.' + @kind + N'.'
        + CONVERT(nvarchar(64), HASHBYTES('SHA2_256', CONVERT(binary(2), DATALENGTH(@queue)) + @queue + @key), 2);
    DECLARE @answer int;
    EXEC @answer = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
    IF @answer < 0
        THROW 53107, N'a key could not be locked: a deadlock, or the lock timeout of the session', 1;
END;
