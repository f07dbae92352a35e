-- settle_miss: answers a settle that found no running job under its proof: a repeat, a theft, or a job long gone. Refusals go to
-- the ledger in the same transaction.
-- Takes: the proof, the verb, its result or error, who sent it.
-- Returns: status 'already', 'refused' or 'gone'; the job's state; when it is due again; the reason of a refusal.
-- Raises: nothing
-- Transaction: joins the caller's; under REPEATABLE READ it tells what that transaction's snapshot knows
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S3, S4, S6, S7
CREATE PROCEDURE turno.settle_miss(
    IN p_job BIGINT, IN p_attempt BIGINT, IN p_token BINARY(16), IN p_verb VARCHAR(8), IN p_detail LONGTEXT,
    IN p_worker VARCHAR(255), OUT p_status VARCHAR(8), OUT p_state VARCHAR(9), OUT p_run_at BIGINT, OUT p_reason TEXT)
BEGIN
    DECLARE v_hash, v_ended_hash BINARY(32) DEFAULT UNHEX(SHA2(p_token, 256));
    DECLARE v_job_state, v_outcome VARCHAR(9);
    DECLARE v_verb, v_ended_verb VARCHAR(8);
    DECLARE v_job_attempt, v_ended_attempt BIGINT;
    DECLARE v_job_worker, v_ended_worker, v_job_queue, v_ended_queue VARBINARY(200);
    -- A dead job that was retried later was dead in the answer.
    -- In one statement, and so in one snapshot: a job that ends meanwhile must be seen before or after, and not in neither place.
    SELECT a.verb, a.state, IF(a.state = 'dead', NULL, a.run_at), f.outcome, f.verb, f.attempt, f.token_hash, f.worker, f.queue, j.state, j.attempt, j.worker, j.queue
    INTO v_verb, p_state, p_run_at, v_outcome, v_ended_verb, v_ended_attempt, v_ended_hash, v_ended_worker, v_ended_queue, v_job_state,
        v_job_attempt, v_job_worker, v_job_queue
    FROM (SELECT p_job AS id) p
    LEFT JOIN turno.finished_job f FORCE INDEX (PRIMARY) ON f.id = p.id
    LEFT JOIN turno.attempt a FORCE INDEX (PRIMARY) ON a.job_id = p.id AND a.attempt = p_attempt AND a.token_hash = v_hash
    LEFT JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = p.id;
    IF v_ended_attempt = p_attempt AND v_ended_hash = v_hash THEN
        SET p_state = v_outcome, p_run_at = NULL, v_verb = v_ended_verb;
    END IF;
    IF v_verb = p_verb THEN
        SET p_status = 'already';
    ELSE
        SET p_status = IF(v_job_state IS NULL AND v_outcome IS NULL, 'gone', 'refused');
        SET p_reason = CASE
            WHEN v_verb IS NOT NULL THEN CONCAT('already settled as ', p_state, ' by ', v_verb)
            WHEN v_job_state = 'running' THEN CONCAT('the lease is lost: attempt ', v_job_attempt, ' is running on ',
                                                     CONVERT(v_job_worker USING utf8mb4))
            WHEN v_job_state IS NOT NULL THEN CONCAT('the lease is lost: the job is ', v_job_state, ' after attempt ', v_job_attempt)
            WHEN v_outcome IS NOT NULL THEN CONCAT('the lease is lost: the job ended as ', v_outcome, ' in attempt ', v_ended_attempt)
            ELSE 'no record of the job is left' END;
        -- A refusal tells the job's state now; what was settled long ago is in the reason.
        SET p_state = COALESCE(v_job_state, v_outcome), p_run_at = NULL;
        CALL turno.ledger_add(p_job, p_attempt, p_verb, p_detail, p_worker, p_reason, COALESCE(v_job_queue, v_ended_queue), p_state,
            COALESCE(v_job_worker, v_ended_worker), COALESCE(v_job_attempt, v_ended_attempt));
    END IF;
END
