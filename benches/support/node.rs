//! Workers of Node that others wrote.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const PACKAGES: [&str; 2] = ["bullmq@6.7.0", "ioredis@6.0.0"];

/// Jobs per second of BullMQ, two processes that each run this many jobs at a time, from the first job's begin to the
/// last one's end.
pub fn bullmq(jobs: usize, port: u16, concurrency: &str) -> f64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/support/bullmq.mjs");
    let mut node = Command::new("node");
    node.args([script, &port.to_string(), &jobs.to_string(), "2", concurrency]);
    let output = node.env("BENCH_NODE", packages()).output().expect("Node runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds: f64 = text.trim().parse().unwrap_or_else(|_| panic!("seconds, not {output:?}"));
    jobs as f64 / seconds
}

/// A file beside the packages, from which Node finds them; they are installed on first use.
fn packages() -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-node");
        if !place.join("node_modules/ioredis").exists() {
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--ignore-scripts", "--prefix"]).arg(&place).args(PACKAGES);
            let done = npm.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
            assert!(done, "{npm:?} failed: the packages of this bench cannot be installed");
        }
        place
    });
    place.join("bench.js")
}
