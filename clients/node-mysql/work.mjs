// A worker in Node on MySQL or MariaDB: claims jobs of one queue, keeps their leases, settles them, and ends when nothing is due.
//
//     DATABASE_URL=mysql://... node work.mjs QUEUE
//
// It shows what every client has to do and nothing else. It does one job at a time; it does not reap or prune, which
// claims and other workers do. Ids are 64-bit and stay strings here: a number of JavaScript would round them.

import { randomBytes, randomUUID } from "node:crypto";
import mysql from "mysql2/promise";

const leaseMs = 30_000;
const worker = `node/${process.pid}`;

// What an attempt passes on: the trace of its job's enqueue, and a span of its own. A tracing library makes it of its current span.
const childOf = (traceparent) =>
  traceparent && `${traceparent.slice(0, 36)}${randomBytes(8).toString("hex")}${traceparent.slice(52)}`;

const handlers = {
  double: async (_connection, _job, payload) => ({ doubled: payload.n * 2 }),
  // In the transaction of the completion: the next job is there if and only if this one is done.
  follow: async (connection, job) => {
    const following = [job.queue, "double", job.payload, null, null, null, null, null];
    await call(connection, "enqueue", ...following, childOf(job.traceparent));
    return { followed: true };
  },
  refuse: async (_connection, _job, payload) => {
    throw new Error(`will not work on ${payload.n}`);
  },
};

const pool = mysql.createPool({
  uri: process.env.DATABASE_URL.replace(/^mariadb:/, "mysql:"),
  connectionLimit: 2,
  charset: "utf8mb4",
  supportBigNumbers: true,
  bigNumberStrings: true,
});

// A CALL answers its rows and then how it ended.
async function call(connection, routine, ...values) {
  const places = values.map(() => "?").join(", ");
  const [answer] = await connection.query(`CALL turno.${routine}(${places})`, values);
  return Array.isArray(answer) ? answer[0] : [];
}

// Ids are strings here, and numbers in the JSON that the routines take.
const batch = ({ id, attempt, token }, rest = {}) =>
  `[{"job":${id},"attempt":${attempt},"token":"${token}",${JSON.stringify(rest).slice(1)}]`.replace(",}]", "}]");

// Once the token is known a lost answer is no lost job: the same claim answers the same job.
async function claim(queue) {
  const token = randomUUID();
  for (let triesLeft = 2; ; triesLeft--) {
    try {
      const [row] = await call(pool, "claim", JSON.stringify([queue]), worker, 1, leaseMs, token, null, null);
      return row?.id == null ? null : row;
    } catch (error) {
      if (![1205, 1213].includes(error.errno) || triesLeft === 0) throw error;
    }
  }
}

// Aborts the handler when the lease is lost or a cancel was requested.
function keepLease(job) {
  const stop = new AbortController();
  const beat = async () => {
    const [answer] = await call(pool, "heartbeat", batch(job), leaseMs);
    if (["lost", "finished"].includes(answer.answer) || Number(answer.cancel_requested)) stop.abort();
  };
  const timer = setInterval(() => beat().catch((error) => console.error("heartbeat:", error.message)), leaseMs / 3);
  return { signal: stop.signal, end: () => clearInterval(timer) };
}

// Runs the handler and completes the job in one transaction; a failure is recorded after its rollback.
async function settle(job) {
  const proof = [job.id, job.attempt, job.token];
  const lease = keepLease(job);
  const connection = await pool.getConnection();
  try {
    await connection.query("START TRANSACTION");
    const result = await handlers[job.kind](connection, job, JSON.parse(job.payload), lease.signal);
    // The handler may still finish after the lease was lost; only the database knows who owns the job.
    await call(connection, "complete", ...proof, JSON.stringify(result), worker);
    await connection.query("COMMIT");
    return "completed";
  } catch (error) {
    await connection.query("ROLLBACK");
    if ([31003, 31004, 31005].includes(error.errno)) {
      // The effects are rolled back with the completion. The ledger keeps that work was done in vain.
      await call(connection, "refused_record", ...proof, "complete", null, worker);
      return "refused";
    }
    // Workers use the many form: a refusal is an answer and stands in the ledger, nothing raises.
    const [answer] = await call(connection, "fail_many", batch(job, { error: `${error}` }), worker);
    return `failed, ${answer.status}, now ${answer.state}`;
  } finally {
    lease.end();
    connection.release();
  }
}

for (let job; (job = await claim(process.argv[2])); ) {
  if (handlers[job.kind]) {
    console.log(job.id, await settle(job));
  } else {
    await call(pool, "release", job.id, job.attempt, job.token, 60_000, worker);
    console.log(job.id, "released: nobody here knows the kind", job.kind);
  }
}
await pool.end();
