//! Workers, with the real binary: protocol faults, Python in each mode, several pools, other languages.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../support/python.rs"]
mod python;
#[path = "../support/sandbox.rs"]
mod sandbox;

mod coroutines;
mod each_mode;
mod in_rust;
mod kale;
mod languages;
mod pools;
mod protocol;
mod qless;
mod surroundings;
mod templates;
mod watch;

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use python::{
    all, counts, ended, pid_of, pool, put, put_lines, result, run, slots, start, start_file, touch, word,
    words,
};
use sandbox::{Sandbox, alive, is_root, kill, missing, stays, wait_until};
use serde_json::{Value, json};

/// The class that waits for the file `go`; it runs in the main thread in this mode.
fn hold(mode: &str) -> &'static str {
    if mode == "coroutine" { "hold.async" } else { "hold" }
}

fn keeper(sandbox: &Sandbox) -> i32 {
    pid_of(&sandbox.status()["keeper"])
}

fn sent(job: &Value) -> Vec<&str> {
    let signals = job["forensics"]["signals"].as_array().unwrap();
    signals.iter().map(|sent| sent["signal"].as_str().unwrap()).collect()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("\"{prefix}{number}\"")).collect()
}

fn put_into(sandbox: &Sandbox, queue: &str, class: &str) -> String {
    sandbox.ok(&["put", queue, class]).trim().to_owned()
}

fn log(sandbox: &Sandbox, job: &Value) -> String {
    sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()])
}
