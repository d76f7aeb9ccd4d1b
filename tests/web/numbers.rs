//! The numbers on the pages of workers, fleet, recurring jobs and series: those of `--json`.

use std::time::Duration;

use serde_json::Value;

use crate::http;
use crate::page::{Served, put, status};
use crate::redis_server::RedisServer;
use crate::sandbox::{Sandbox, Setting, wait_until};

/// The texts of the cells of a row.
fn cells(shown: &str, key: &str) -> Vec<String> {
    let rest = shown.split(&format!("<tr data-key=\"{key}\"")).nth(1);
    let row = rest.unwrap_or_else(|| panic!("no row {key}: {shown}")).split("</tr>").next().unwrap();
    row.replace("<th", "<td").split("<td").skip(1).map(|cell| text(&format!("<td{cell}"))).collect()
}

/// A part of a page without its tags.
fn text(html: &str) -> String {
    let words: String =
        html.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    words.trim().to_owned()
}

fn size(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "K", "M", "G", "T"].iter());
    let mut unit = units.next().unwrap();
    while value >= 1000.0 {
        (value, unit) = (value / 1024.0, units.next().unwrap());
    }
    if *unit == "B" || value >= 100.0 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}

fn age(seconds: f64) -> String {
    let time = Duration::from_secs_f64(seconds);
    if time.as_millis() < 100 { format!("{}ms", time.as_millis()) } else { format!("{seconds:.1}s") }
}

/// What a process and all below it use.
fn uses(process: &Value) -> (u64, f64) {
    let below = process["children"].as_array().into_iter().flatten().map(uses);
    below.fold((process["rss"].as_u64().unwrap(), process["cpu"].as_f64().unwrap()), |a, b| {
        (a.0 + b.0, a.1 + b.1)
    })
}

/// The slot in which a job runs.
fn busy(now: &Value, job: &str) -> Option<Value> {
    let mut slots = now["pools"][0]["slots"].as_array().unwrap().iter();
    slots.find(|slot| slot["jobs"][0]["id"] == job).cloned()
}

/// Whether its six children have begun to sleep.
fn is_still(slot: &Value) -> bool {
    let children = slot["process"]["children"].as_array();
    let sleeps = |one: &Value| one["name"] == "sleep" && one["state"] == "S";
    children.is_some_and(|all| all.len() == 6 && all.iter().all(sleeps))
}

#[test]
fn numbers_of_workers_are_those_of_the_commands() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "8", "--retries", "0"]);
    let sleeping = sandbox.put(&["sh", "-c", "for n in 1 2 3 4 5 6; do sleep 1000 & done; wait"]);
    for _ in 0..3 {
        sandbox.put(&["false"]);
    }
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let ask = |path: &str| {
        let shown = page.ask("GET", path, &[&cookie, "tv-fragment: 1"], "");
        assert_eq!(status(&shown), 200, "{path}: {shown}");
        shown
    };
    let now = || sandbox.json(&["status", "--json"]);
    wait_until("the others have ended, and its children sleep", || {
        busy(&now(), &sleeping).is_some_and(|slot| is_still(&slot))
            && sandbox.json(&["queue", "list", "--json"])["default"]["jobs"]["failed"] == 3
            && now()["pools"][0]["slots"].to_string().matches("\"state\":\"ready\"").count() == 7
    });
    // A process may grow between two looks: what is equal in two of them stood on the page between them.
    let (before, shown, after) = loop {
        let (before, shown) = (now(), ask("/workers"));
        let after = now();
        if before["pools"][0]["slots"] == after["pools"][0]["slots"]
            || busy(&before, &sleeping).map(|slot| uses(&slot["process"]))
                == busy(&after, &sleeping).map(|slot| uses(&slot["process"]))
        {
            break (before, shown, after);
        }
    };
    let slot = busy(&after, &sleeping).unwrap();
    let name = slot["slot"].as_str().unwrap();
    let (rss, cpu) = uses(&slot["process"]);
    let row = cells(&shown, name);
    assert_eq!(
        [&row[0], &row[1], &row[4], &row[5], &row[6]].map(String::as_str),
        [name, "busy", &size(rss), &age(cpu), &slot["restarts"].to_string()],
        "{row:?}"
    );
    let idle: Vec<Value> = before["pools"][0]["slots"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|slot| slot["state"] == "ready")
        .cloned()
        .collect();
    let row = cells(&shown, "idle");
    assert_eq!((row[1].as_str(), idle.len()), ("ready ×7", 7), "{row:?}");
    let memory = idle.iter().filter_map(|slot| slot["process"]["rss"].as_u64()).sum();
    assert_eq!(row[4], size(memory), "{row:?}");
    for pid in [&before["keeper"]["pid"], &before["supervisor"]["pid"]] {
        assert!(shown.contains(&format!(" {pid}, ")), "{pid}: {shown}");
    }

    // Equal children share a row with their sum, as in `status`.
    let shown = ask(&format!("/slot/{name}"));
    let children = slot["process"]["children"].as_array().unwrap();
    let row = cells(&shown, &children[0]["pid"].to_string());
    let sum = children.iter().map(|child| child["rss"].as_u64().unwrap()).sum();
    assert_eq!((row[0].as_str(), row[2].as_str()), ("sleep ×6", size(sum).as_str()), "{shown}");
}

#[test]
fn numbers_of_fleet_and_recurring_jobs_are_those_of_the_commands() {
    let sandbox = Sandbox::new(Setting::Root);
    let redis = RedisServer::start();
    let _running = sandbox.start(&["-w", "8", "-b", &redis.url()]);
    sandbox.ok(&["recur", "put", "tick", "--every", "1s", "-q", "later", "--", "true"]);
    let sleeping = sandbox.put(&["sleep", "1000"]);
    wait_until("the fleet knows of the job that runs", || {
        let fleet = sandbox.json(&["status", "--fleet", "--json"]);
        sandbox.state(&sleeping) == "running" && fleet["supervisors"][0]["pools"][0]["busy"] == 1
    });
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let ask = |path: &str| page.ask("GET", path, &[&cookie, "tv-fragment: 1"], "");
    let fleet = sandbox.json(&["status", "--fleet", "--json"]);
    let member = &fleet["supervisors"][0];
    let row = cells(&ask("/fleet"), member["instance"].as_str().unwrap());
    let pool = &member["pools"][0];
    assert_eq!(row[2], member["running"].to_string(), "{row:?}");
    assert!(row[3].contains(&format!("{} of {} busy", pool["busy"], pool["slots"])), "{row:?} {pool}");
    assert_eq!(row[4], member["version"].as_str().unwrap());

    sandbox.ok(&["recur", "pause", "tick"]);
    let one = sandbox.json(&["recur", "show", "tick", "--json"]);
    let row = cells(&ask("/recurring"), "tick");
    assert_eq!(row[4..6], [one["count"].to_string(), one["skipped"].to_string()], "{row:?}");
    let shown = ask("/recurring/tick");
    let jobs = sandbox.lines(&["job", "list", "--recurring", "tick", "--json"]).len();
    assert!(shown.contains(&format!("aria-label=\"The latest {jobs}: {jobs} not ended\"")), "{shown}");
}

/// The rows of the table below the charts, without their times.
fn rows(shown: &str) -> Vec<Vec<String>> {
    let table = shown.split("The same as a table</summary>").nth(1).unwrap_or_else(|| panic!("{shown}"));
    let rows = table.split("</table>").next().unwrap().split("<tr data-key=").skip(1);
    let cells = |row: &str| {
        row.split("</tr>")
            .next()
            .unwrap()
            .split("<td")
            .skip(1)
            .map(|cell| text(&format!("<td{cell}")))
            .collect()
    };
    rows.map(cells).collect()
}

#[test]
fn numbers_of_the_charts_are_those_of_the_series() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    for _ in 0..3 {
        sandbox.put(&["false"]);
        sandbox.put(&["sleep", "0.1"]);
        put(&sandbox, "later", &["true"]);
    }
    wait_until("those of a pool have ended", || {
        let jobs = sandbox.json(&["queue", "list", "--json"])["default"]["jobs"].clone();
        jobs["complete"] == 3 && jobs["failed"] == 3
    });
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    for (path, query) in [("/", ""), ("/queue/default", "?queue=default"), ("/queue/later", "?queue=later")] {
        let series = || -> Value {
            serde_json::from_str(&http::get(&sandbox, &format!("/v1/series{query}"))).unwrap()
        };
        let shown = page.ask("GET", path, &[&cookie, "tv-fragment: 1"], "");
        let series = series()["series"][0].clone();
        let numbers = |name: &str| -> Vec<f64> {
            series[name]
                .as_array()
                .unwrap_or_else(|| panic!("{name}: {series}"))
                .iter()
                .filter_map(Value::as_f64)
                .collect()
        };
        let sum = |name: &str| numbers(name).iter().sum::<f64>().to_string();
        let most = |name: &str| numbers(name).into_iter().reduce(f64::max);
        let rows = rows(&shown);
        let added = |column: usize| {
            rows.iter().map(|row| row[column].parse::<f64>().unwrap()).sum::<f64>().to_string()
        };
        for (column, name) in ["put", "begun", "complete", "failed"].iter().enumerate() {
            assert_eq!(added(column), sum(name), "{path} {name}: {rows:?}");
        }
        // Lengths and times do not add up: the longest stands for all.
        for (column, name) in [(4, "waiting"), (5, "busy")] {
            let shown = rows.iter().filter_map(|row| row[column].parse::<f64>().ok()).reduce(f64::max);
            assert_eq!(shown, most(name), "{path} {name}: {rows:?}");
        }
        for (column, name) in [(6, "wait_p50"), (7, "wait_p95"), (8, "run_p50"), (9, "run_p95")] {
            let times: Vec<&String> =
                rows.iter().map(|row| &row[column]).filter(|time| !time.is_empty()).collect();
            match most(name) {
                Some(longest) => assert!(times.contains(&&age(longest)), "{path} {name} {longest}: {rows:?}"),
                None => assert!(times.is_empty(), "{path} {name}: {rows:?}"),
            }
        }
    }
}
