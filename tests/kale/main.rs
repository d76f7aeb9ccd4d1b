//! kale's pickles compared with those of a real Python.

#[path = "../support/missing.rs"]
mod missing;

use std::io::Write;
use std::process::{Command, Stdio};
use std::{str, thread};

use kale::Message;
use missing::missing;
use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kale/pickles.py");

/// The lines that the script prints.
fn python(verb: &str, input: Vec<Value>) -> Vec<Value> {
    let mut child = Command::new("python3")
        .args([SCRIPT, verb])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = thread::Builder::new().spawn(move || {
        for line in input {
            writeln!(stdin, "{line}").expect("python3 reads");
        }
    });
    let output = child.wait_with_output().expect("python3 ends");
    writer.expect("a thread").join().expect("python3 has read all of it");
    assert!(output.status.success());
    let text = str::from_utf8(&output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn there_is_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        missing("python3");
    }
    found
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn reads_pickles_of_every_protocol_that_python_writes() {
    if !there_is_python() {
        return;
    }
    let lines = python("write", Vec::new());
    assert!(lines.len() > 300, "{}", lines.len());
    for line in lines {
        let message = Message::read(&bytes(line["pickle"].as_str().expect("hex")))
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message.task, "kb_tasks.Noop");
        assert_eq!(message.args.is_plain(), line["plain"], "{line}: {:?}", message.args);
    }
}

#[test]
fn writes_the_same_pickles_as_python() {
    if !there_is_python() {
        return;
    }
    let mut sent = Vec::new();
    for mut line in python("write", Vec::new()).into_iter().filter(|line| line["plain"] == true) {
        let message = Message::read(&bytes(line["pickle"].as_str().expect("hex"))).expect("a message");
        line["pickle"] = json!(hex(&message.pickle().expect("plain values")));
        line["retry_num"] = json!(0);
        sent.push(line);
    }
    for (answer, line) in python("read", sent.clone()).iter().zip(&sent) {
        assert_eq!(answer["same"], true, "{line}: {answer}");
        // Python cuts a long pickle into frames.
        if line["pickle"].as_str().is_some_and(|hex| hex.len() < 100_000) {
            assert_eq!(answer["python"], line["pickle"], "{answer}");
        }
    }
}
