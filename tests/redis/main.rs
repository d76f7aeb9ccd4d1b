//! The script that runs in Redis, command by command: arguments, answers, errors, events and the keys it writes.
#![allow(clippy::unwrap_used)]

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/sandbox.rs"]
mod sandbox;
#[path = "../support/sentinel.rs"]
mod sentinel;
#[path = "../support/redis.rs"]
mod support;

mod broken;
mod complete;
mod cut_off;
mod days;
mod edit;
mod ends;
mod fleet;
mod floods;
mod foreign;
mod holds;
mod interop;
mod look;
mod named;
mod news;
mod odd;
mod options;
mod pop;
mod put;
mod queues;
mod ranges;
mod recur;
mod recurring;
mod stopped;
mod supervisors;
mod sweep;
mod unheard;

use support::{Ears, RedisServer, Scripted};

/// An own server, a subscriber to all channels, and our script.
struct Scene {
    _server: RedisServer,
    ears: Ears,
    script: Scripted,
}

impl Scene {
    fn new() -> Scene {
        let server = RedisServer::start();
        let (ears, script) = (Ears::new(&server), Scripted::new(&server, qless::script::SCRIPT));
        Scene { _server: server, ears, script }
    }

    /// Puts a job at 0 into `queue` and drops the events of the put.
    fn put(&mut self, jid: &str, queue: &str, more: &[&str]) {
        let args = [&["put", "0", "me", queue, jid, "klass", "{}", "0"], more].concat();
        assert_eq!(self.script.call::<String>(&args), jid);
        self.ears.heard();
    }

    /// The jids that a worker pops at this time.
    fn pop(&mut self, now: &str, queue: &str, worker: &str, count: usize) -> Vec<String> {
        let jobs = self.script.json(&format!("pop {now} {queue} {worker} {count}"));
        let jids = |jobs: &Vec<serde_json::Value>| {
            jobs.iter().map(|job| job["jid"].as_str().unwrap().into()).collect()
        };
        jobs.as_array().map(jids).unwrap_or_default()
    }

    /// Asserts that each command is refused with an error that contains the text, and changes no key.
    fn refused(&mut self, cases: &[(&str, &str)]) {
        let before = self.script.everything();
        for (line, text) in cases {
            let args: Vec<&str> = line.split(' ').collect();
            let refusal = self.script.refusal(&args);
            assert!(refusal.contains(text), "{line}: {refusal}");
            assert_eq!(self.script.everything(), before, "{line}");
        }
        assert_eq!(self.ears.heard(), Vec::<String>::new());
    }
}

#[test]
fn unknown_commands_are_refused() {
    let mut scene = Scene::new();
    scene.refused(&[
        ("fly 0", "Unknown command fly"),
        ("put", "Arg \"now\" missing or not a number: nil"),
        ("put soon", "Arg \"now\" missing or not a number: soon"),
        ("put nan me q j klass {} 0", "Arg \"now\" missing or not a number: nan"),
        ("put inf me q j klass {} 0", "Arg \"now\" missing or not a number: inf"),
    ]);
    let error = scene.script.refusal(&[]);
    assert!(error.contains("Must provide a command"), "{error}");
}

#[test]
fn errors_have_the_user_script_prefix() {
    // Clients in Ruby look for exactly this.
    let error = Scene::new().script.refusal(&["put", "0"]);
    let is_so = |rest: &str| {
        let text = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        text.len() < rest.len() && text.starts_with(": Put(): Arg \"jid\" missing")
    };
    assert!(error.split("user_script:").skip(1).any(is_so), "{error}");
}

#[test]
fn script_lib_allows_several_commands_in_one_script() {
    let server = RedisServer::start();
    let script = format!(
        "{}local jid = taskvisor({{}}, {{'put', ARGV[1], 'me', 'q', ARGV[2], 'klass', '{{}}', '0'}})\n\
         taskvisor({{}}, {{'track', ARGV[1], 'track', jid}})\n\
         return taskvisor({{}}, {{'get', ARGV[1], jid}})",
        printed(&["redis", "script", "--lib"])
    );
    let job = Scripted::new(&server, &script).json("5 j");
    assert_eq!((&job["jid"], &job["tracked"]), (&serde_json::json!("j"), &serde_json::json!(true)));
}

#[test]
fn redis_script_prints_the_script_that_runs() {
    assert_eq!(printed(&["redis", "script"]), qless::script::SCRIPT);
}

/// What taskvisor prints.
fn printed(args: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_taskvisor")).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn docs_explain_every_command() {
    let page = include_str!("../../docs/design/qless-script.md");
    let script = qless::script::SCRIPT;
    let commands = script.split("command == '").skip(1).map(|rest| rest.split('\'').next().unwrap());
    let commands: std::collections::BTreeSet<&str> = commands.collect();
    assert!(commands.len() > 35);
    // Commands of taskvisor alone are internal.
    let missing = commands.iter().filter(|name| !name.starts_with("taskvisor."));
    let missing: Vec<&&str> = missing.filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/design/qless-script.md says nothing of {missing:?}");
}
