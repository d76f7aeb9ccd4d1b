//! Jobs that are put as a batch: how far it is, its output, its failures.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::{Sandbox, Setting, kill, stays, wait_until};

/// Puts a job for each of these lines, in a batch.
fn put(sandbox: &Sandbox, batch: &str, lines: &str, command: &[&str]) -> Vec<String> {
    let args = [&["put", "--lines", "--batch", batch, "--retries", "0", "--"], command].concat();
    fed(sandbox, &args, lines)
}

/// Gives a command these lines on stdin, and takes those that it prints.
fn fed(sandbox: &Sandbox, args: &[&str], lines: &str) -> Vec<String> {
    let mut put = sandbox.command(args);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = put.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn lines_that_nobody_has_named_are_a_batch_all_the_same() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let mut batches = Vec::new();
    for lines in ["one\ntwo\n", "three\n"] {
        let told = fed(&sandbox, &["put", "--lines", "--json", "--", "true"], lines);
        let told: Vec<Value> = told.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(told.iter().all(|one| one["batch"] == told[0]["batch"]), "{told:?}");
        batches.push(told[0]["batch"].as_str().unwrap().to_owned());
    }
    assert!(batches[0] != batches[1] && batches[0].starts_with("lines-"), "{batches:?}");
    sandbox.ok(&["batch", "wait", "--timeout", "1m", &batches[0]]);
    assert_eq!(sandbox.json(&["batch", "show", "--json", &batches[0]])["states"]["complete"], 2);
    // On a terminal it says so.
    let put = sandbox.command(&["put", "--lines", "--", "true"]);
    let words: Vec<_> = std::iter::once(put.get_program()).chain(put.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let on_terminal = format!("printf 'a\\nb\\n' | {}", words.join(" "));
    let mut script = std::process::Command::new("script");
    script.args(["-q", "-e", "-c", &on_terminal, "/dev/null"]).stdin(Stdio::null());
    for (name, value) in put.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    let said = String::from_utf8(script.output().unwrap().stdout).unwrap();
    let line = said.lines().find(|line| line.starts_with("batch lines-")).expect(&said).trim();
    let (name, wait) = line["batch ".len()..].split_once(": ").unwrap();
    assert_eq!(wait, format!("taskvisor batch wait {name}"));
}

#[test]
fn batch_is_shown_waited_for_retried_and_its_output_printed_in_order() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    // The second fails until there is a file.
    let script = "echo line $0; echo err $0 >&2; test $0 != two || test -e go";
    let ids = put(&sandbox, "letters", "one\ntwo\nthree\n", &["sh", "-c", script]);
    assert_eq!(ids.len(), 3);
    let waited = sandbox.run(&["batch", "wait", "--timeout", "1m", "letters"]);
    assert_eq!(waited.status.code(), Some(1), "{waited:?}");
    let said = String::from_utf8(waited.stderr).unwrap();
    assert!(said.lines().last().unwrap().contains("100% 3 of 3 ended, 1 failed"), "{said}");
    let shown: Value = sandbox.json(&["batch", "show", "--json", "letters"]);
    assert_eq!((&shown["batch"], &shown["states"]["complete"]), (&"letters".into(), &2.into()), "{shown}");
    assert_eq!(
        (&shown["failures"][0]["job"], shown["failures"].as_array().unwrap().len()),
        (&ids[1].clone().into(), 1)
    );
    let page = sandbox.ok(&["batch", "show", "letters"]);
    assert!(
        page.contains("complete 2  failed 1\n") && page.contains(&format!("{}  exit 1", ids[1])),
        "{page}"
    );
    let output = sandbox.ok(&["job", "logs", "--batch", "letters", "--stream", "stdout"]);
    assert_eq!(output, "line one\nline two\nline three\n");
    sandbox.script("go", "");
    let retry =
        |more: &[&str]| sandbox.ok(&[&["job", "retry", "--failed", "--batch", "letters"], more].concat());
    assert!(retry(&["--dry-run"]).starts_with(&format!("1 job would be retried\n  {}", ids[1])));
    assert_eq!(retry(&["--class", "exec"]), "1 job retried\n");
    sandbox.ok(&["batch", "wait", "letters"]);
    assert_eq!(retry(&[]), "0 jobs retried\n");
    assert_eq!(sandbox.ok(&["job", "list", "--json", "--batch", "letters"]).lines().count(), 3);
    let (code, said) = sandbox.refused(&["job", "retry", "--failed", "--tag", "leters"]);
    assert!(code == 7 && said.contains("no job has the tag 'leters'"), "{code} {said}");
    let (code, said) = sandbox.refused(&["batch", "show", "leters"]);
    assert!(code == 7 && said.contains("no job is in a batch 'leters'"), "{code} {said}");
}

#[test]
fn batches_are_listed_and_counted_without_a_supervisor_too() {
    let sandbox = Sandbox::new(Setting::Plain);
    put(&sandbox, "first", "a\nb\n", &["true"]);
    put(&sandbox, "second", "c\n", &["true"]);
    let list = sandbox.ok(&["batch", "list"]);
    let rows: Vec<Vec<&str>> = list.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (rows[0][..4].join(" "), rows[1][..4].join(" ")),
        ("second 1 0 0".into(), "first 2 0 0".into())
    );
    let (code, said) = sandbox.refused(&["batch", "wait", "--timeout", "300ms", "first"]);
    assert!(code == 124 && said.contains("0% 0 of 2 ended"), "{code} {said}");
}

#[test]
fn list_that_is_cut_says_how_many_there_are() {
    let sandbox = Sandbox::new(Setting::Plain);
    let lines: String = (0..120).map(|n| format!("{n}\n")).collect();
    put(&sandbox, "many", &lines, &["true"]);
    let listed = |more: &[&str]| {
        let output = sandbox.run(&[&["job", "list"], more].concat());
        (String::from_utf8(output.stdout).unwrap().lines().count(), String::from_utf8(output.stderr).unwrap())
    };
    let cut = "note: these are 50 of 120 jobs; -n 0 shows all, -n N so many\n".to_owned();
    assert_eq!(listed(&["--batch", "many"]), (51, cut.clone()));
    assert_eq!(listed(&["--json"]), (50, cut.clone()));
    assert_eq!(listed(&["--sort", "ran"]), (51, cut));
    assert_eq!(listed(&["-n", "0"]), (121, String::new()));
    assert_eq!(listed(&["-n", "120"]), (121, String::new()));
    assert_eq!(listed(&["--state", "complete"]).1, "");
    let _running = sandbox.start(&["-w", "1"]);
    assert_eq!(
        listed(&["-n", "7", "--queue", "default"]).1,
        "note: these are 7 of 120 jobs; -n 0 shows all, -n N so many\n"
    );
}

#[test]
fn put_that_waits_for_a_command_shows_its_output_as_it_comes() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let script = "echo out; echo err >&2; until test -e go; do sleep 0.05; done; echo end; exit 3";
    let mut command = sandbox.command(&["put", "--wait", "--retries", "0", "--", "sh", "-c", script]);
    let file = |name: &str| std::fs::File::create(sandbox.path(name)).unwrap();
    let mut put = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    let told = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    wait_until("both streams have come", || told("out") == "out\n" && told("err").contains("\nerr\n"));
    sandbox.script("go", "");
    assert_eq!(put.wait().unwrap().code(), Some(1));
    assert_eq!(told("out"), "out\nend\n");
    assert!(told("err").starts_with("queued as ") && told("err").contains("is failed"), "{}", told("err"));
}

#[test]
fn put_that_waits_goes_on_with_the_output_when_a_killed_supervisor_is_replaced() {
    let sandbox = Sandbox::new(Setting::Plain);
    let running = sandbox.start(&["-w", "1"]);
    let script = "echo out; until test -e go; do sleep 0.05; done; echo end";
    let mut command = sandbox.command(&["put", "--wait", "--", "sh", "-c", script]);
    let file = |name: &str| std::fs::File::create(sandbox.path(name)).unwrap();
    let mut put = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    let told = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    wait_until("its output has come", || told("out") == "out\n");
    let supervisor = sandbox.one("tv-supervisor");
    // So it takes longer than the pause between two tries.
    running.signal("STOP");
    kill(supervisor, "KILL");
    stays(Duration::from_millis(800), "it waits without a word", || {
        put.try_wait().unwrap().is_none() && told("err").lines().count() == 1
    });
    running.signal("CONT");
    sandbox.wait_healthy();
    sandbox.script("go", "");
    assert!(put.wait().unwrap().success(), "{}", told("err"));
    assert!(told("out").ends_with("end\n"), "{}", told("out"));
}
