-- settle_miss: answers a settle that found no running job under its proof: a repeat, a theft, or a job long gone. Refusals go to
-- the ledger in the same transaction.
-- Takes: the proof, the verb, its result or error, who sent it.
-- Returns: status 'already', 'refused' or 'gone'; the job's state; when it is due again; the reason of a refusal.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S3, S4, S6, S7
CREATE OR REPLACE FUNCTION turno.settle_miss(
    p_job bigint, p_attempt bigint, p_token uuid, p_verb text, p_detail text, p_worker text,
    OUT status text, OUT state text, OUT run_at timestamptz, OUT reason text)
LANGUAGE plpgsql
AS $$
DECLARE
    v_hash     bytea := sha256(uuid_send(p_token));
    v_job      turno.job;
    v_finished turno.finished_job;
    v_ended    turno.attempt;
    v_found    record;
    v_verb     text;
BEGIN
    -- In one statement, and so in one snapshot: a job that ends meanwhile must be seen before or after, and not in neither place.
    SELECT f, a, j INTO v_found
    FROM (VALUES (p_job)) p (id)
    LEFT JOIN turno.finished_job f ON f.id = p.id
    LEFT JOIN turno.attempt a ON a.job_id = p.id AND a.attempt = p_attempt AND a.token_hash = v_hash
    LEFT JOIN turno.job j ON j.id = p.id;
    v_finished := v_found.f;
    v_ended := v_found.a;
    v_job := v_found.j;
    IF v_finished.attempt = p_attempt AND v_finished.token_hash = v_hash THEN
        v_verb := v_finished.verb;
        state := v_finished.outcome;
    ELSIF v_ended.job_id IS NOT NULL THEN
        v_verb := v_ended.verb;
        state := v_ended.state;
        -- A dead job that was retried later was dead in the answer.
        run_at := CASE WHEN v_ended.state <> 'dead' THEN v_ended.run_at END;
    END IF;
    IF v_verb = p_verb THEN
        status := 'already';
        RETURN;
    END IF;
    status := CASE WHEN v_job.id IS NULL AND v_finished.id IS NULL THEN 'gone' ELSE 'refused' END;
    reason := CASE
        WHEN v_verb IS NOT NULL THEN format('already settled as %s by %s', state, v_verb)
        WHEN v_job.state = 'running' THEN format('the lease is lost: attempt %s is running on %s', v_job.attempt, v_job.worker)
        WHEN v_job.id IS NOT NULL THEN format('the lease is lost: the job is %s after attempt %s', v_job.state, v_job.attempt)
        WHEN v_finished.id IS NOT NULL THEN format('the lease is lost: the job ended as %s in attempt %s', v_finished.outcome,
                                                   v_finished.attempt)
        ELSE 'no record of the job is left' END;
    -- A refusal tells the job's state now; what was settled long ago is in the reason.
    state := coalesce(v_job.state, v_finished.outcome);
    run_at := NULL;
    PERFORM turno.ledger_add(p_job, p_attempt, p_verb, p_detail, p_worker, reason, coalesce(v_job.queue, v_finished.queue),
        coalesce(v_job.state, v_finished.outcome), coalesce(v_job.worker, v_finished.worker),
        coalesce(v_job.attempt, v_finished.attempt));
END $$;
