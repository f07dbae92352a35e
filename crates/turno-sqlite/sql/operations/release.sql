-- release: gives a job back uncharged; without a delay it keeps its old due time, and so its place.
-- One row from prove goes on to internal/end_attempt.sql; no row goes on to internal/settle_miss.sql.
-- Takes: :job, :attempt, :token; then for end_attempt: verb 'release', :delay_ms.
-- Returns: prove: the job's id if the proof is the current one.
-- Raises: in a caller's transaction LeaseLost, Conflict or NotFound; otherwise refusals are answers
-- Transaction: joins the caller's, which must be able to write (BEGIN IMMEDIATE), else its own
-- Writes: job, and finished_job or attempt; the ledger if refused
-- Locks: the database for writing
-- Rules: O2, O4, O5, S1, S2, S3, S4, F1

-- statement: prove
SELECT id FROM turno_job WHERE id = :job AND state = 'running' AND attempt = :attempt AND token = :token;
