//! Recurring jobs, the real binary: by hand, while supervisors run, die and share a store.

use std::collections::BTreeSet;

use crate::sandbox::{Sandbox, Setting, wait_until};
use serde_json::Value;

fn refused(sandbox: &Sandbox, args: &[&str], code: i32, says: &[&str]) {
    let output = sandbox.run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{args:?}: {said}");
    for words in says {
        assert!(said.contains(words), "{args:?}: '{words}' is not in:\n{said}");
    }
}

fn by_hand(sandbox: &Sandbox, name: &str) {
    let yearly = ["--cron", "0 0 1 jan *", "--tz", "Europe/Vienna"];
    let put = |json: bool, data: &str| {
        let mut args = vec!["recur", "put", name];
        args.extend(yearly);
        args.extend(json.then_some("--json"));
        args.extend(["--priority", "-3", "mail", "Report", data]);
        sandbox.ok(&args)
    };
    let record: Value = serde_json::from_str(&put(true, "[1]")).expect("JSON");
    assert_eq!(record["recurring"]["schedule"]["cron"]["zone"], "Europe/Vienna");
    let next = record["next_at_ms"].as_i64().expect("a time");
    assert_eq!((next + 3_600_000) % 86_400_000, 0, "midnight there is 23:00 UTC");
    let run = sandbox.ok(&["recur", "run", name]);
    assert_eq!(run, format!("{name}-1\n"));
    let job = sandbox.job(run.trim());
    assert_eq!((&job["recurring"], &job["priority"]), (&name.into(), &(-3).into()));
    assert!(job["put_by"].as_str().is_some_and(|by| by.ends_with(&format!(", recurring {name}"))), "{job}");
    let shown = put(false, "[2]");
    for words in
        ["schedule    0 0 1 jan * (Europe/Vienna)\n", "data        [2]\n", "jobs        1, skipped 0\n"]
    {
        assert!(shown.contains(words), "{shown}");
    }
    assert_eq!(sandbox.ok(&["recur", "show", name]), shown);
    let list = sandbox.lines(&["recur", "list", "--json"]);
    assert_eq!(list.iter().filter(|one| one["recurring"]["name"] == name).count(), 1);
    assert!(sandbox.ok(&["recur", "list"]).starts_with("NAME"));
    assert_eq!(sandbox.ok(&["recur", "pause", name]), format!("{name} paused\n"));
    assert!(
        sandbox
            .ok(&["recur", "list"])
            .lines()
            .any(|line| line.starts_with(name) && line.contains("  paused  "))
    );
    assert_eq!(sandbox.json(&["recur", "resume", name, "--json"])["paused"], false);
    assert_eq!(sandbox.ok(&["recur", "show", name]), shown);
    assert_eq!(sandbox.ok(&["recur", "remove", name]), format!("{name} removed\n"));
    let none = format!("error: no recurring job is called '{name}'\n");
    for verb in ["show", "run", "pause", "resume", "remove"] {
        refused(sandbox, &["recur", verb, name], 7, &[&none]);
    }
    put(true, "[3]");
    let again = sandbox.json(&["recur", "run", name, "--json"]);
    assert_eq!(again["id"], format!("{name}-2"), "its number is not used again");
}

fn badly(sandbox: &Sandbox) {
    let put = |typed: &[&str], says: &[&str]| {
        refused(sandbox, &[&["recur", "put"], typed, &["--", "true"]].concat(), 2, says);
    };
    put(
        &["n", "--every", "0"],
        &["error: cannot put the recurring job 'n'", "an interval of 0s is too short"],
    );
    put(&["n", "--every", "10"], &["is no duration"]);
    put(
        &["n", "--cron", "0 24 * * *"],
        &["this is no hour; allowed are 0 to 23", "\n  0 24 * * *\n    ^^\n"],
    );
    put(&["n", "--cron", "0 0 30 feb *"], &["this day never comes", "\n  0 0 30 feb *\n      ^^^^^^\n"]);
    put(&["n", "--cron", "@daily", "--tz", "Vienna"], &["did you mean Europe/Vienna?"]);
    put(&["n", "--cron", "@daily", "--tz", "GMT+2"], &["did you mean Etc/GMT-2?"]);
    let mut nameless = sandbox.command(&["recur", "put", "n", "--cron", "@daily", "--", "true"]);
    let output = nameless.env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let words = "the time zone of this machine has no name: TZ=CET-1CEST,M3.5.0,M10.5.0/3";
    assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    put(&["", "--every", "1m"], &["a value is required for '[NAME]'"]);
    put(&[&"x".repeat(101), "--every", "1m"], &["1 to 100 visible ASCII characters"]);
    put(&["a\u{1b}[2J", "--every", "1m"], &["'a\\x1b[2J'", "visible ASCII characters"]);
    put(&["n", "--every", "1m", "--cron", "@daily"], &["cannot be used with"]);
    put(&["n", "--every", "1m", "--tz", "UTC"], &["--tz"]);
    put(&["n"], &["--every <DURATION>|--cron <LINE>"]);
    put(&["n", "--every", "1m", "--lines"], &["--jid belong to a single put"]);
    put(&["n", "--every", "1m", "--overlap", "replace"], &["it is skip or allow"]);
    put(&["n", "--every", "1m", "--backlog", "3"], &["--backlog 3 has no meaning with --overlap skip"]);
    put(&["n", "--every", "1m", "--catch-up", "32d"], &["31d is the longest"]);
    assert_eq!(sandbox.ok(&["recur", "list"]), "");
}

#[test]
fn recur_verbs_work_with_and_without_a_supervisor() {
    let sandbox = Sandbox::new(Setting::Plain);
    badly(&sandbox);
    by_hand(&sandbox, "alone");
    sandbox.ok(&["recur", "remove", "alone"]);
    let _running = sandbox.start(&["-w", "1"]);
    badly(&sandbox);
    by_hand(&sandbox, "served");
}

/// The jobs of a recurring job, oldest first.
fn jobs_of(sandbox: &Sandbox, args: &[&str], name: &str) -> Vec<Value> {
    let list = ["job", "list", "--json", "-n", "1000", "--recurring", name];
    let mut jobs = sandbox.lines(&[&list[..], args].concat());
    jobs.reverse();
    jobs
}

/// Asserts that the jobs are numbered without a gap and that each has another time of the schedule.
fn each_once(jobs: &[Value], name: &str, first: i64) {
    let ids: Vec<&str> = jobs.iter().map(|job| job["id"].as_str().expect("an id")).collect();
    let expected: Vec<String> = (1..=jobs.len()).map(|n| format!("{name}-{n}")).collect();
    assert_eq!(ids, expected);
    let times: Vec<i64> = jobs.iter().map(|job| job["put_at_ms"].as_i64().expect("a time")).collect();
    assert!(times.iter().all(|at| (at - first) % 1000 == 0), "{first}: {times:?}");
    assert_eq!(times.iter().collect::<BTreeSet<_>>().len(), times.len(), "{times:?}");
}

#[test]
fn each_occurrence_fires_once_though_hosts_are_killed() {
    let sandbox = Sandbox::new(Setting::Plain);
    let put = ["recur", "put", "tick", "--every", "1s", "--overlap", "allow", "--json", "--", "true"];
    let first = sandbox.json(&put)["next_at_ms"].as_i64().expect("a time");
    assert_eq!(jobs_of(&sandbox, &[], "tick").len(), 0, "nobody serves the store");
    for round in 1..=5 {
        let mut running = sandbox.start(&["-w", "1"]);
        wait_until("there are new jobs", || jobs_of(&sandbox, &[], "tick").len() >= 2 * round);
        running.signal("KILL");
        running.wait();
    }
    let mut running = sandbox.start(&["-w", "1"]);
    sandbox.ok(&["recur", "remove", "tick"]);
    let jobs = jobs_of(&sandbox, &[], "tick");
    each_once(&jobs, "tick", first);
    let ids = jobs.iter().map(|job| job["id"].as_str().expect("an id"));
    let wait: Vec<&str> = ["job", "wait", "--timeout", "40s"].into_iter().chain(ids).collect();
    sandbox.ok(&wait);
    running.signal("TERM");
    assert!(running.wait().success());
    sandbox.assert_nothing_left();
}

#[test]
fn two_supervisors_on_one_store_fire_each_occurrence_once() {
    let (one, two) = (Sandbox::new(Setting::Plain), Sandbox::new(Setting::Plain));
    let store = format!("sqlite:{}", one.work("shared.db").display());
    let shared = ["-b", &store];
    let _first = one.start(&[&shared[..], &["-w", "1"]].concat());
    let _second = two.start(&[&shared[..], &["-w", "1"]].concat());
    let put = ["recur", "put", "tick", "--every", "1s", "--json", "--overlap", "allow", "--", "true"];
    let put = [&shared[..], &put].concat();
    let first = one.json(&put)["next_at_ms"].as_i64().expect("a time");
    wait_until("there are four jobs", || jobs_of(&two, &shared, "tick").len() >= 4);
    two.ok(&[&shared[..], &["recur", "remove", "tick"]].concat());
    let jobs = jobs_of(&one, &shared, "tick");
    each_once(&jobs, "tick", first);
    wait_until("all are complete", || {
        jobs_of(&one, &shared, "tick").iter().all(|job| job["state"] == "complete")
    });
}

#[test]
fn recurring_job_that_cannot_be_put_is_told_and_is_put_once_it_can() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let minutely = ["--cron", "* * * * *", "--tz", "Europe/Vienna", "--", "true"];
    sandbox.ok(&[&["recur", "put", "gone"], &minutely[..]].concat());
    let store = rusqlite::Connection::open(sandbox.path("state/store.db")).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(9)).unwrap();
    let zone = |from: &str, to: &str| {
        let set = "UPDATE recurring SET spec = replace(spec, ?1, ?2), next_at = next_at - 60000 WHERE name = 'gone'";
        assert_eq!(store.execute(set, [from, to]).unwrap(), 1);
        sandbox.ok(&["recur", "put", "other", "--every", "1h", "--", "true"]);
    };
    zone("Europe/Vienna", "Mars/Base");
    let why = "a recurring job is due and cannot be put: 'gone': no time zone is called 'Mars/Base'";
    wait_until("status says so", || sandbox.reasons().contains(why));
    assert!(sandbox.ok(&["recur", "list"]).contains("  cannot be put  "));
    let shown = sandbox.ok(&["recur", "show", "gone"]);
    assert!(shown.contains("not put     'gone': no time zone is called 'Mars/Base'"), "{shown}");
    assert!(sandbox.stderr().contains(why.split_once(": ").unwrap().0), "{}", sandbox.stderr());
    let before = sandbox.json(&["recur", "show", "gone", "--json"])["count"].as_u64();
    zone("Mars/Base", "Europe/Vienna");
    wait_until("it is put", || sandbox.json(&["recur", "show", "gone", "--json"])["count"].as_u64() > before);
    sandbox.wait_healthy();
}
