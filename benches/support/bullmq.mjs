// BullMQ on Redis: jobs that do nothing.
//
// `node bullmq.mjs PORT JOBS PROCESSES CONCURRENCY` puts them, has that many processes run them, and prints the seconds
// from the first job's begin to the last one's end. Each process is one thread of Node, whose jobs take turns.

import { fork } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";

const { Queue, Worker } = createRequire(process.env.BENCH_NODE)("bullmq");
const [port, jobs, processes, concurrency] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };

/** Runs jobs and reports when its first began, and every 10 ms how many have ended: more reports would cost it time. */
async function work() {
    let begun = false;
    let done = 0;
    let last = 0n;
    let timer = null;
    const tell = () => {
        timer = null;
        process.send({ done, last: String(last) });
    };
    const worker = new Worker("bench", async () => {
        if (!begun) process.send({ first: String(process.hrtime.bigint()) });
        begun = true;
    }, { connection, concurrency, autorun: false });
    worker.on("completed", () => {
        done += 1;
        last = process.hrtime.bigint();
        timer ??= setTimeout(tell, 10);
    });
    await worker.waitUntilReady();
    process.send({ ready: true });
    await once(process, "message");
    worker.run();
}

async function measure() {
    const queue = new Queue("bench", { connection });
    for (let put = 0; put < jobs; put += 1000) {
        await queue.addBulk(Array.from({ length: Math.min(1000, jobs - put) }, () => ({ name: "nothing", data: {} })));
    }
    const told = new Map();
    let ready = 0;
    const over = new Promise((resolve) => {
        for (let n = 0; n < processes; n += 1) {
            const child = fork(process.argv[1], process.argv.slice(2), { env: { ...process.env, BENCH_WORK: "1" } });
            told.set(child, { done: 0 });
            child.on("message", (message) => {
                Object.assign(told.get(child), message);
                if (message.ready) ready += 1;
                if (message.ready && ready === processes) for (const one of told.keys()) one.send("begin");
                const all = [...told.values()];
                if (all.reduce((sum, one) => sum + one.done, 0) === jobs) resolve(all);
            });
        }
    });
    const all = (await over).filter((one) => one.first);
    const begin = all.map((one) => BigInt(one.first)).reduce((a, b) => (a < b ? a : b));
    const end = all.map((one) => BigInt(one.last)).reduce((a, b) => (a > b ? a : b));
    console.log(Number(end - begin) / 1e9);
    for (const child of told.keys()) child.kill("SIGKILL");
    await queue.close();
}

await (process.env.BENCH_WORK ? work() : measure());
