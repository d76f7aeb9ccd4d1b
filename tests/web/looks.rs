//! What the pages show: in every look, without a script, with hostile names.

use std::fs;

use serde_json::Value;

use crate::browser::Browser;
use crate::page::{Served, put, status};
use crate::sandbox::{Sandbox, Setting, missing, wait_until};

/// A name that would like to be more than a name.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"';&\u{200b}";

/// Jobs in several states, some of them hostile.
fn fill(sandbox: &Sandbox) -> [String; 3] {
    let hostile = sandbox.ok(&[
        "put",
        "--tag",
        HOSTILE,
        HOSTILE,
        HOSTILE,
        r#"{"a": "<b>\u001b[31m", "password": "canary"}"#,
    ]);
    let script = "printf '\\033[31mred\\033[0m <b>'; printf 'last \\033]0;x\\007words' >&2; exit 3";
    let failed = sandbox.put(&["sh", "-c", script]);
    let complete = sandbox.put(&["echo", "<i>done</i>"]);
    for job in [&failed, &complete] {
        wait_until("it has ended", || ["failed", "complete"].contains(&sandbox.state(job).as_str()));
    }
    [hostile.trim().to_owned(), failed, complete]
}

#[test]
fn every_page_is_sound_in_every_look_and_width() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    let [hostile, failed, complete] = fill(&sandbox);
    let running = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&running) == "running");
    sandbox.ok(&["put", "--batch", "letters", "--", "true"]);
    sandbox.ok(&["recur", "put", "nightly", "--cron", "0 3 * * *", "--", "true"]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    let axe = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/target/axe/node_modules/axe-core/axe.min.js"
    ));
    if axe.is_err() {
        missing("axe-core");
    }
    let pages = pages(&hostile, &failed, &complete, &running);
    let mut wrong = Vec::new();
    for path in &pages {
        browser.go(&page.at(path));
        for colors in ["light", "dark", "forced"] {
            for width in [360, 768, 1440] {
                browser.look(width, colors);
                let wide = browser.js("return document.documentElement.scrollWidth - innerWidth");
                assert!(wide.as_i64().unwrap() <= 0, "{path} is {wide} px too wide at {width} in {colors}");
                if let Ok(axe) = &axe {
                    let found = violations(&browser, axe);
                    wrong.extend(found.iter().map(|one| format!("{path} at {width} in {colors}: {one}")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let complaints: Vec<String> = browser.complaints();
    // The browser itself notes an answer of 404 and 501, which a page each is.
    let is_noted =
        |said: &&String| !said.contains("404 (Not Found)") && !said.contains("501 (Not Implemented)");
    let odd: Vec<&String> = complaints.iter().filter(is_noted).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

/// The paths of the pages.
fn pages(hostile: &str, failed: &str, complete: &str, running: &str) -> Vec<String> {
    [
        "/".to_owned(),
        "/?span=day".into(),
        "/jobs".into(),
        "/jobs?q=state%3Anosuch".into(),
        "/jobs?q=true".into(),
        format!("/job/{failed}"),
        format!("/job/{hostile}"),
        format!("/job/{complete}"),
        format!("/job/{running}"),
        format!("/job/{running}/picture"),
        "/job/nosuch".into(),
        "/failures".into(),
        "/queues".into(),
        "/queue/default".into(),
        "/batches".into(),
        "/batch/letters".into(),
        "/recurring".into(),
        "/recurring/nightly".into(),
        "/workers".into(),
        "/pool/default".into(),
        "/slot/default.1".into(),
        "/fleet".into(),
        "/events".into(),
        "/config".into(),
        "/config?show=all".into(),
        "/doctor".into(),
        "/act?act=recur-edit&name=nightly".into(),
        "/act?act=pool-scale&pool=default".into(),
        "/act?act=queue-set&queue=default".into(),
        format!("/act?act=cancel&job={running}"),
        "/act?act=retry-all&state=failed".into(),
    ]
    .into()
}

/// What axe-core finds wrong, a line each.
fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.js(&format!("if (!window.axe) {{ {axe} }}"));
    let script = "const done = arguments[arguments.length - 1]; axe.run({ resultTypes: ['violations'] }).then(
        (found) => done(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160) + ' ' + node.failureSummary.slice(0, 200)).join(' | '))),
        (error) => done([String(error)]));";
    let found = browser.js_later(script);
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn hostile_names_and_hidden_data_are_shown_as_text_or_not_at_all() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    let [hostile, failed, _] = fill(&sandbox);
    let page = Served::start(&sandbox, &["--redact", "password"]);
    let cookie = page.enter();
    let quoted = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in [
        "/".to_owned(),
        "/jobs".into(),
        format!("/job/{hostile}"),
        format!("/jobs?q={quoted}"),
        format!("/job/{quoted}"),
        format!("/failures?queue={quoted}"),
    ] {
        let shown = page.ask("GET", &path, &[&cookie], "");
        assert!(!shown.contains("<script>alert"), "{path}: {shown}");
        assert!(!without_tags(&shown).contains('\u{202e}'), "{path}: {shown}");
        assert!(!shown.contains("canary"), "{path}: {shown}");
    }
    let shown = page.ask("GET", &format!("/job/{hostile}"), &[&cookie], "");
    assert!(shown.contains("U+202E") && shown.contains("U+200B") && shown.contains(">hidden<"), "{shown}");
    let shown = page.ask("GET", &format!("/job/{failed}"), &[&cookie], "");
    assert!(shown.contains("<span class=\"f1 \">red</span> &lt;b&gt;"), "{shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown}");
}

#[test]
fn no_page_shows_what_jobs_carry_or_say_where_data_is_hidden() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    let data = sandbox.ok(&["put", "later", "mail.Send", r#"{"to": "canary"}"#]);
    let failed = sandbox.put(&["sh", "-c", "echo 'canary of its end' >&2; exit 3", "canary"]);
    let running = sandbox.put(&["sh", "-c", "sleep 1000 # canary"]);
    wait_until("it has failed", || sandbox.state(&failed) == "failed");
    wait_until("it runs", || sandbox.state(&running) == "running");
    let slot =
        sandbox.job(&running)["worker"]["slot"].as_str().unwrap().split('#').next().unwrap().to_owned();
    let page = Served::start(&sandbox, &["--hide-data"]);
    let cookie = page.enter();
    for path in [
        "/".to_owned(),
        "/jobs".into(),
        "/failures".into(),
        "/workers".into(),
        "/events".into(),
        format!("/job/{}", data.trim()),
        format!("/job/{running}"),
        format!("/job/{running}/picture"),
        format!("/slot/{slot}"),
    ] {
        let shown = page.ask("GET", &path, &[&cookie], "");
        assert!(status(&shown) == 200 && !shown.contains("canary"), "{path}: {shown}");
        assert!(!shown.contains("<bdi>sleep</bdi>"), "{path}: {shown}");
    }
    // What is not shown is not found either: neither by an error nor by a title.
    for (line, found) in [("canary", false), ("error:canary", false), ("sleep", false), ("exec", true)] {
        let shown = page.ask("GET", &format!("/jobs?q={line}"), &[&cookie], "");
        assert_eq!(shown.contains(&failed) || shown.contains(&running), found, "{line}: {shown}");
    }
    let open = Served::start(&sandbox, &[]);
    let shown = open.ask("GET", "/jobs?q=CANARY+end", &[&open.enter()], "");
    assert!(shown.contains(&failed) && !shown.contains(&running), "{shown}");
    let shown = page.ask("GET", &format!("/job/{failed}"), &[&cookie], "");
    assert_eq!(shown.matches("canary").count(), 1, "only its output says it: {shown}");
    assert!(shown.contains("exit 3"), "{shown}");
}

/// What a reader sees: what stands in elements is for the browser alone.
fn without_tags(html: &str) -> String {
    html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect()
}

#[test]
fn numbers_on_the_pages_are_those_of_the_commands() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    for _ in 0..3 {
        sandbox.put(&["false"]);
        sandbox.put(&["true"]);
        put(&sandbox, "other", &["true"]);
    }
    wait_until("all have ended", || {
        sandbox.json(&["queue", "list", "--json"])["default"]["jobs"]["complete"] == 3
    });
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let figure = |path: &str, mark: &str| -> u64 {
        let shown = page.ask("GET", path, &[&cookie, "tv-fragment: 1"], "");
        let (_, rest) = shown.split_once(mark).unwrap_or_else(|| panic!("no {mark}: {shown}"));
        // Behind a whole attribute the number stands in the element.
        let rest = if mark.ends_with('"') { rest.split_once('>').unwrap().1 } else { rest };
        rest.chars()
            .skip_while(|letter| !letter.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap()
    };
    let queues = sandbox.json(&["queue", "list", "--json"]);
    let sum = |state: &str| {
        queues.as_object().unwrap().values().filter_map(|queue| queue["jobs"][state].as_u64()).sum::<u64>()
    };
    for state in ["failed", "complete"] {
        assert_eq!(
            figure("/queue/other", &format!("data-state=\"{state}\"")),
            queues["other"]["jobs"][state].as_u64().unwrap_or(0)
        );
    }
    for state in ["waiting", "failed", "complete"] {
        assert_eq!(figure("/", &format!("data-tile=\"{state}\"")), sum(state), "{state}");
    }
    let listed = |args: &[&str]| sandbox.lines(&[&["job", "list", "--json"], args].concat()).len() as u64;
    assert_eq!(figure("/jobs", "data-count="), listed(&[]));
    assert_eq!(figure("/jobs?q=state:failed+queue:default", "data-count="), listed(&["--state", "failed"]));
    sandbox.ok(&["put", "--batch", "letters", "-q", "other", "--", "true"]);
    let batch = sandbox.json(&["batch", "show", "letters", "--json"]);
    assert_eq!(
        figure("/batch/letters", "data-count="),
        batch["states"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>()
    );
    let groups: Vec<Value> = sandbox.lines(&["failed", "--json"]);
    assert_eq!(figure("/failures", "data-failed="), groups[0]["failed"].as_u64().unwrap());
}

#[test]
fn batch_of_more_jobs_than_are_looked_at_is_counted_whole() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    sandbox.ok(&["queue", "pause", "later"]);
    for (batch, count) in [("many", 3_000), ("rest", 8_000)] {
        let lines: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        fs::write(sandbox.path("lines"), lines.join("\n")).unwrap();
        let mut put = sandbox.command(&["put", "-q", "later", "--lines", "--batch", batch, "--", "true"]);
        put.stdin(fs::File::open(sandbox.path("lines")).unwrap());
        assert!(put.output().unwrap().status.success());
    }
    let page = Served::start(&sandbox, &[]);
    let shown = page.ask("GET", "/batches", &[&page.enter()], "");
    assert!(shown.contains("among the newest 10,000 jobs; older ones are not shown"), "{shown}");
    let row = shown.split("href=\"/batch/many\"").nth(1).unwrap_or_else(|| panic!("{shown}"));
    assert!(row.contains("<td class=\"num\">3,000</td>"), "{row}");
}

#[test]
fn page_says_that_the_supervisor_is_gone_and_goes_on_with_the_next() {
    let sandbox = Sandbox::new(Setting::Root);
    let mut running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    sandbox.ok(&["stop", "--kill"]);
    running.wait();
    let shown = page.ask("GET", "/", &[&cookie], "");
    assert!(status(&shown) == 503 && shown.contains("no supervisor listens"), "{shown}");
    drop(running);
    let _next = sandbox.start(&[]);
    let shown = page.ask("GET", "/", &[&cookie], "");
    assert!(status(&shown) == 200 && shown.contains("healthy"), "{shown}");
}
