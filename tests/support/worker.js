// A worker in Node: 30 lines.
const fs = require("node:fs");
const net = require("node:net");

const channel = new net.Socket({ fd: 3 });
const say = (frame) => channel.write(JSON.stringify(frame) + "\n");

function count(job) {
  say({ progress: { job: job.id, fraction: 0.5, message: "reading" } });
  console.log("reading", job.data.path);
  return fs.readFileSync(job.data.path, "utf8").split("\n").length - 1;
}

function run(job) {
  const done = { job: job.id, fence: job.fence };
  try {
    say({ done: { ...done, outcome: "complete", result: count(job) } });
  } catch (error) {
    say({ done: { ...done, outcome: "failed", error: { group: error.code, message: error.message, trace: error.stack } } });
  }
}

let rest = "";
channel.setEncoding("utf8");
channel.on("data", (text) => {
  const lines = (rest + text).split("\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    const frame = JSON.parse(line);
    if (frame.run) run(frame.run.job);
    if (frame.ping) say({ pong: {} });
    if (frame.shutdown) process.exit(0);
  }
});
channel.on("end", () => process.exit(0));
process.on("SIGTERM", () => process.exit(0));
say({ hello: { protocol: 1, sdk: `node ${process.version}`, classes: { "text.Count": {} } } });
say({ ready: {} });
