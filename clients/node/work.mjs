// A worker in Node: claims jobs of one queue, keeps their leases, settles them, and ends when nothing is due.
//
//     DATABASE_URL=postgres://... node work.mjs QUEUE
//
// It shows what every client has to do and nothing else. It does one job at a time; it does not reap or prune, which
// claims and other workers do. Ids are 64-bit and stay strings here: a number of JavaScript would round them.

import { randomBytes, randomUUID } from "node:crypto";
import pg from "pg";

const leaseMs = 30_000;
const worker = `node/${process.pid}`;

// What an attempt passes on: the trace of its job's enqueue, and a span of its own. A tracing library makes it of its current span.
const childOf = (traceparent) =>
  traceparent && `${traceparent.slice(0, 36)}${randomBytes(8).toString("hex")}${traceparent.slice(52)}`;

const handlers = {
  double: async (_client, _job, payload) => ({ doubled: payload.n * 2 }),
  // In the transaction of the completion: the next job is there if and only if this one is done.
  follow: async (client, job) => {
    await call(client, "enqueue($1, 'double', $2, p_traceparent => $3)", job.queue, job.payload, childOf(job.traceparent));
    return { followed: true };
  },
  refuse: async (_client, _job, payload) => {
    throw new Error(`will not work on ${payload.n}`);
  },
};

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 });
const call = async (client, sql, ...values) => (await client.query(`SELECT * FROM turno.${sql}`, values)).rows;

// Once the token is known a lost answer is no lost job: the same claim answers the same job.
async function claim(queue) {
  const token = randomUUID();
  for (let triesLeft = 2; ; triesLeft--) {
    try {
      const [row] = await call(pool, "claim($1, $2, 1, $3, $4)", [queue], worker, leaseMs, token);
      return row?.id == null ? null : row;
    } catch (error) {
      if (!["40001", "40P01"].includes(error.code) || triesLeft === 0) throw error;
    }
  }
}

// Aborts the handler when the lease is lost or a cancel was requested.
function keepLease({ id, attempt, token }) {
  const stop = new AbortController();
  const beat = async () => {
    const [answer] = await call(pool, "heartbeat($1, $2, $3, $4)", [id], [attempt], [token], leaseMs);
    if (["lost", "finished"].includes(answer.answer) || answer.cancel_requested) stop.abort();
  };
  const timer = setInterval(() => beat().catch((error) => console.error("heartbeat:", error.message)), leaseMs / 3);
  return { signal: stop.signal, end: () => clearInterval(timer) };
}

// Runs the handler and completes the job in one transaction; a failure is recorded after its rollback.
async function settle(job) {
  const proof = [job.id, job.attempt, job.token];
  const lease = keepLease(job);
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await handlers[job.kind](client, job, JSON.parse(job.payload), lease.signal);
    // The handler may still finish after the lease was lost; only the database knows who owns the job.
    await call(client, "complete($1, $2, $3, $4, $5)", ...proof, JSON.stringify(result), worker);
    await client.query("COMMIT");
    return "completed";
  } catch (error) {
    await client.query("ROLLBACK");
    if (["TU003", "TU004", "TU005"].includes(error.code)) {
      // The effects are rolled back with the completion. The ledger keeps that work was done in vain.
      await call(client, "refused_record($1, $2, $3, 'complete', p_worker => $4)", ...proof, worker);
      return "refused";
    }
    // Workers use the many form: a refusal is an answer and stands in the ledger, nothing raises.
    const arrays = proof.map((part) => [part]);
    const [answer] = await call(client, "fail_many($1, $2, $3, $4, p_worker => $5)", ...arrays, [`${error}`], worker);
    return `failed, ${answer.status}, now ${answer.state}`;
  } finally {
    lease.end();
    client.release();
  }
}

for (let job; (job = await claim(process.argv[2])); ) {
  if (handlers[job.kind]) {
    console.log(job.id, await settle(job));
  } else {
    await call(pool, "release($1, $2, $3, p_delay_ms => 60000)", job.id, job.attempt, job.token);
    console.log(job.id, "released: nobody here knows the kind", job.kind);
  }
}
await pool.end();
