// Fetches and completes jobs of pg-boss in batches, and prints the jobs per second of each size.
// Run in the folder that has node_modules/pg-boss. Arguments: jobs, bytes of a job, sizes.
import { PgBoss } from "pg-boss";

const [jobs, bytes, ...sizes] = process.argv.slice(1);
const QUEUE = "bench";
const CHUNK = 1000;
const wanted = Number(jobs);
const data = { body: "x".repeat(Number(bytes)) };

// The connection settings come from PGHOST, PGUSER and PGDATABASE.
const boss = new PgBoss({ max: 4, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue(QUEUE);

const rates = [];
for (const size of sizes.map(Number)) {
  for (let made = 0; made < wanted; made += CHUNK) {
    const count = Math.min(CHUNK, wanted - made);
    await boss.insert(QUEUE, Array.from({ length: count }, () => ({ data })));
  }
  const began = performance.now();
  let done = 0;
  for (;;) {
    const fetched = await boss.fetch(QUEUE, { batchSize: size });
    if (fetched.length === 0) break;
    await boss.complete(QUEUE, fetched.map((job) => job.id));
    done += fetched.length;
  }
  if (done !== wanted) throw new Error(`${done} of ${wanted} jobs were completed`);
  rates.push((1000 * done) / (performance.now() - began));
}
await boss.stop({ graceful: false });
console.log(JSON.stringify(rates));
process.exit(0);
