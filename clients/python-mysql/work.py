"""A worker in Python on MySQL or MariaDB: claims jobs of one queue, keeps their leases, settles them, and ends when nothing is due.

    DATABASE_URL=mysql://... python work.py QUEUE

It shows what every client has to do and nothing else. It does one job at a time; it does not reap or prune, which claims
and other workers do.
"""

import json
import os
import secrets
import sys
import threading
import uuid
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.cursors import DictCursor

LEASE_MS = 30_000
WORKER = f"python/{os.getpid()}"

ROLLED_BACK = (1205, 1213)
REFUSED = (31003, 31004, 31005)


class Lease:
    """Keeps one lease from a thread with a connection of its own, so that no handler can starve the heartbeat."""

    def __init__(self, url, proof):
        self.url, self.proof = url, proof
        self.ended, self.stop = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self):
        turno = connect(self.url)
        while not self.ended.wait(LEASE_MS / 3_000):
            answer = call(turno, "heartbeat", json.dumps([self.proof]), LEASE_MS)[0]
            if answer["answer"] in ("lost", "finished") or answer["cancel_requested"]:
                self.stop.set()
                break
        turno.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def connect(url):
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        charset="utf8mb4",
        autocommit=True,
        cursorclass=DictCursor,
    )


def call(turno, routine, *arguments):
    """The rows of a routine. What follows them is read, too: it may be the error of a commit."""
    places = ", ".join(["%s"] * len(arguments))
    with turno.cursor() as cursor:
        cursor.execute(f"CALL turno.{routine}({places})", arguments)
        rows = cursor.fetchall()
        while cursor.nextset():
            pass
    return rows


def claim(turno, queue):
    """One job, or None. Once the token is known a lost answer is no lost job: the same claim answers the same job."""
    token = str(uuid.uuid4())
    for tries_left in (2, 1, 0):
        try:
            rows = call(turno, "claim", json.dumps([queue], ensure_ascii=False), WORKER, 1, LEASE_MS, token, None, None)
            return rows[0] if rows and rows[0]["id"] is not None else None
        except pymysql.MySQLError as error:
            if error.args[0] not in ROLLED_BACK or not tries_left:
                raise


def settle(turno, job, handler, url):
    """Runs the handler and completes the job in one transaction; a failure is recorded after its rollback."""
    proof = {"job": job["id"], "attempt": job["attempt"], "token": job["token"]}
    try:
        with Lease(url, proof) as lease:
            turno.begin()
            result = handler(turno, job, json.loads(job["payload"]), lease.stop)
            # The handler may still finish after the lease was lost; only the database knows who owns the job.
            call(turno, "complete", *proof.values(), json.dumps(result, ensure_ascii=False), WORKER)
            turno.commit()
        return "completed"
    except Exception as error:
        turno.rollback()
        if not isinstance(error, pymysql.MySQLError) or error.args[0] not in REFUSED:
            return fail(turno, proof, error)
        # The effects are rolled back with the completion. The ledger keeps that work was done in vain.
        call(turno, "refused_record", *proof.values(), "complete", None, WORKER)
        return "refused"


def fail(turno, proof, error):
    """Workers use the many form: a refusal is an answer and stands in the ledger, nothing raises."""
    failure = {**proof, "error": f"{type(error).__name__}: {error}"}
    answer = call(turno, "fail_many", json.dumps([failure], ensure_ascii=False), WORKER)[0]
    return f"failed, {answer['status']}, now {answer['state']}"


def child_of(traceparent):
    """What this attempt passes on: the trace of its job's enqueue, and a span of its own. A tracing library makes it of its current span."""
    return traceparent and f"{traceparent[:36]}{secrets.token_hex(8)}{traceparent[52:]}"


def double(turno, job, payload, stop):
    return {"doubled": payload["n"] * 2}


def follow(turno, job, payload, stop):
    # In the transaction of the completion: the next job is there if and only if this one is done.
    following = (job["queue"], "double", json.dumps(payload, ensure_ascii=False), None, None, None, None, None)
    call(turno, "enqueue", *following, child_of(job["traceparent"]))
    return {"followed": True}


def refuse(turno, job, payload, stop):
    raise ValueError(f"will not work on {payload['n']}")


HANDLERS = {"double": double, "follow": follow, "refuse": refuse}


def main():
    url, queue = os.environ["DATABASE_URL"], sys.argv[1]
    turno = connect(url)
    while job := claim(turno, queue):
        handler = HANDLERS.get(job["kind"])
        if handler is None:
            call(turno, "release", job["id"], job["attempt"], job["token"], 60_000, WORKER)
            print(job["id"], "released: nobody here knows the kind", job["kind"])
        else:
            print(job["id"], settle(turno, job, handler, url))


if __name__ == "__main__":
    main()
