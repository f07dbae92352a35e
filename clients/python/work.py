"""A worker in Python: claims jobs of one queue, keeps their leases, settles them, and ends when nothing is due.

    DATABASE_URL=postgres://... python work.py QUEUE

It shows what every client has to do and nothing else. It does one job at a time; it does not reap or prune, which claims
and other workers do.
"""

import json
import os
import secrets
import sys
import threading
import uuid

import psycopg
from psycopg.rows import dict_row

LEASE_MS = 30_000
WORKER = f"python/{os.getpid()}"



class Lease:
    """Keeps one lease from a thread with a connection of its own, so that no handler can starve the heartbeat."""

    def __init__(self, url, proof):
        self.url, self.proof = url, proof
        self.ended, self.stop = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self):
        arrays = [[part] for part in self.proof]
        with connect(self.url) as turno:
            while not self.ended.wait(LEASE_MS / 3_000):
                sql = "SELECT * FROM turno.heartbeat(%s, %s, %s, %s)"
                answer = turno.execute(sql, (*arrays, LEASE_MS)).fetchone()
                if answer["answer"] in ("lost", "finished") or answer["cancel_requested"]:
                    self.stop.set()
                    return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def connect(url):
    return psycopg.connect(url, autocommit=True, row_factory=dict_row)


def claim(turno, queue):
    """One job, or None. Once the token is known a lost answer is no lost job: the same claim answers the same job."""
    token = uuid.uuid4()
    for tries_left in (2, 1, 0):
        try:
            sql = "SELECT * FROM turno.claim(%s, %s, 1, %s, %s)"
            row = turno.execute(sql, ([queue], WORKER, LEASE_MS, token)).fetchone()
            return row if row and row["id"] is not None else None
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            if not tries_left:
                raise


def settle(turno, job, handler, url):
    """Runs the handler and completes the job in one transaction; a failure is recorded after its rollback."""
    proof = (job["id"], job["attempt"], job["token"])
    try:
        with Lease(url, proof) as lease, turno.transaction():
            result = handler(turno, job, json.loads(job["payload"]), lease.stop)
            # The handler may still finish after the lease was lost; only the database knows who owns the job.
            sql = "SELECT * FROM turno.complete(%s, %s, %s, %s, %s)"
            turno.execute(sql, (*proof, json.dumps(result), WORKER))
        return "completed"
    except psycopg.Error as error:
        if error.sqlstate not in ("TU003", "TU004", "TU005"):
            return fail(turno, proof, error)
        # The effects are rolled back with the completion. The ledger keeps that work was done in vain.
        sql = "SELECT turno.refused_record(%s, %s, %s, 'complete', p_worker => %s)"
        turno.execute(sql, (*proof, WORKER))
        return "refused"
    except Exception as error:
        return fail(turno, proof, error)


def fail(turno, proof, error):
    """Workers use the many form: a refusal is an answer and stands in the ledger, nothing raises."""
    arrays = [[part] for part in proof]
    sql = "SELECT * FROM turno.fail_many(%s, %s, %s, %s, p_worker => %s)"
    answer = turno.execute(sql, (*arrays, [f"{type(error).__name__}: {error}"], WORKER)).fetchone()
    return f"failed, {answer['status']}, now {answer['state']}"


def child_of(traceparent):
    """What this attempt passes on: the trace of its job's enqueue, and a span of its own. A tracing library makes it of its current span."""
    return traceparent and f"{traceparent[:36]}{secrets.token_hex(8)}{traceparent[52:]}"


def double(turno, job, payload, stop):
    return {"doubled": payload["n"] * 2}


def follow(turno, job, payload, stop):
    # In the transaction of the completion: the next job is there if and only if this one is done.
    sql = "SELECT id FROM turno.enqueue(%s, 'double', %s, p_traceparent => %s)"
    turno.execute(sql, (job["queue"], json.dumps(payload), child_of(job["traceparent"])))
    return {"followed": True}


def refuse(turno, job, payload, stop):
    raise ValueError(f"will not work on {payload['n']}")


HANDLERS = {"double": double, "follow": follow, "refuse": refuse}


def main():
    url, queue = os.environ["DATABASE_URL"], sys.argv[1]
    with connect(url) as turno:
        while job := claim(turno, queue):
            handler = HANDLERS.get(job["kind"])
            if handler is None:
                sql = "SELECT * FROM turno.release(%s, %s, %s, p_delay_ms => 60000)"
                turno.execute(sql, (job["id"], job["attempt"], job["token"]))
                print(job["id"], "released: nobody here knows the kind", job["kind"])
            else:
                print(job["id"], settle(turno, job, handler, url))


if __name__ == "__main__":
    main()
