//! Each order that the page offers, given by the keyboard alone, and by forms in a browser that runs no script.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::browser::Browser;
use crate::page::Served;
use crate::sandbox::{Sandbox, Setting, wait_until};

const TAB: &str = "\u{e004}";
const SHIFT: &str = "\u{e008}";
const CONTROL: &str = "\u{e009}";
const ENTER: &str = "\u{e007}";

/// One order: how it is given, and what shows that it was carried out.
struct Row {
    act: &'static str,
    /// Makes what the order is about, and gives its name.
    make: fn(&Sandbox) -> String,
    /// The page with its button.
    at: fn(&str) -> String,
    /// What the reader types into the fields of the question.
    typed: &'static [(&'static str, &'static str)],
    is_done: fn(&Sandbox, &str) -> bool,
    /// Whether the order is given by a box in a list, and a button below it.
    by_box: bool,
}

const ROW: Row =
    Row { act: "", make: |_| String::new(), at: job, typed: &[], is_done: |_, _| false, by_box: false };

/// A list of all orders: one that is added to the page and not here is an error.
const ROWS: &[Row] = &[
    Row { act: "retry", make: failed, is_done: |sandbox, name| history(sandbox, name, "retried"), ..ROW },
    Row { act: "discard", make: failed, is_done: is_gone, ..ROW },
    Row {
        act: "cancel",
        make: waiting,
        typed: &[("reason", "a mistake")],
        is_done: |sandbox, name| {
            sandbox.state(name) == "canceled" && sandbox.job(name).to_string().contains("a mistake")
        },
        ..ROW
    },
    Row {
        act: "again",
        make: waiting,
        typed: &[("data", "[4711]")],
        is_done: |sandbox, _| {
            sandbox
                .lines(&["job", "list", "--json", "-n", "5"])
                .iter()
                .any(|job| sandbox.job(job["id"].as_str().unwrap())["data"] == serde_json::json!([4711]))
        },
        ..ROW
    },
    Row { act: "track", make: waiting, is_done: |sandbox, name| sandbox.job(name)["tracked"] == true, ..ROW },
    Row {
        act: "untrack",
        make: |sandbox| {
            let job = waiting(sandbox);
            sandbox.ok(&["job", "track", &job]);
            job
        },
        is_done: |sandbox, name| sandbox.job(name)["tracked"] != true,
        ..ROW
    },
    Row {
        act: "priority",
        make: waiting,
        typed: &[("priority", "7")],
        is_done: |sandbox, name| sandbox.job(name)["priority"] == 7,
        ..ROW
    },
    Row {
        act: "retry",
        make: failed,
        at: list,
        is_done: |sandbox, name| history(sandbox, name, "retried"),
        by_box: true,
        ..ROW
    },
    Row { act: "discard", make: failed, at: list, is_done: is_gone, by_box: true, ..ROW },
    Row {
        act: "cancel",
        make: waiting,
        at: list,
        is_done: |sandbox, name| sandbox.state(name) == "canceled",
        by_box: true,
        ..ROW
    },
    Row {
        act: "retry-all",
        make: failed,
        at: failures,
        is_done: |sandbox, name| history(sandbox, name, "retried"),
        ..ROW
    },
    Row { act: "discard-all", make: failed, at: failures, is_done: is_gone, ..ROW },
    Row {
        act: "queue-pause",
        make: |sandbox| queue(sandbox, "resume"),
        at: |name| format!("/queue/{name}"),
        typed: &[("reason", "lunch")],
        is_done: |sandbox, name| queues(sandbox)[name]["paused"].to_string().contains("lunch"),
        ..ROW
    },
    Row {
        act: "queue-resume",
        make: |sandbox| queue(sandbox, "pause"),
        at: |name| format!("/queue/{name}"),
        is_done: |sandbox, name| queues(sandbox)[name]["paused"].is_null(),
        ..ROW
    },
    Row {
        act: "queue-forget",
        make: |sandbox| {
            let job = sandbox.ok(&["put", "empty", "Send"]);
            sandbox.ok(&["job", "cancel", job.trim()]);
            sandbox.ok(&["job", "discard", job.trim()]);
            "empty".into()
        },
        at: |name| format!("/queue/{name}"),
        is_done: |sandbox, name| queues(sandbox)[name].is_null(),
        ..ROW
    },
    Row {
        act: "queue-set",
        make: |sandbox| {
            sandbox.ok(&["option", "unset", "max_concurrency", "-q", "later"]);
            queue(sandbox, "resume")
        },
        at: |name| format!("/queue/{name}"),
        typed: &[("max_concurrency", "5")],
        is_done: |sandbox, name| sandbox.ok(&["option", "get", "max_concurrency", "-q", name]) == "5\n",
        ..ROW
    },
    Row {
        act: "pool-pause",
        make: |sandbox| pool(sandbox, &["resume"]),
        at: |name| format!("/pool/{name}"),
        typed: &[("reason", "lunch")],
        is_done: |sandbox, _| the_pool(sandbox)["pause"].to_string().contains("lunch"),
        ..ROW
    },
    Row {
        act: "pool-resume",
        make: |sandbox| pool(sandbox, &["pause"]),
        at: |name| format!("/pool/{name}"),
        is_done: |sandbox, _| the_pool(sandbox)["paused"] != true,
        ..ROW
    },
    Row {
        act: "pool-scale",
        make: |sandbox| pool(sandbox, &["scale", "1"]),
        at: |name| format!("/pool/{name}"),
        typed: &[("workers", "3")],
        is_done: |sandbox, _| the_pool(sandbox)["slots"].as_array().unwrap().len() == 3,
        ..ROW
    },
    Row {
        act: "pool-recycle",
        make: |sandbox| pool(sandbox, &["resume"]),
        at: |name| format!("/pool/{name}"),
        is_done: |sandbox, _| {
            let log = sandbox.stderr();
            log.lines().any(|line| line.contains("exchanged for new ones") && line.contains("uid 0 (web)"))
        },
        ..ROW
    },
    Row {
        act: "recur-edit",
        make: recurring,
        at: |name| format!("/recurring/{name}"),
        typed: &[("when", "30 4 * * *"), ("data", "[1]")],
        is_done: |sandbox, name| {
            recur(sandbox, name)["recurring"]["schedule"]["cron"]["line"] == "30 4 * * *"
        },
        ..ROW
    },
    Row {
        act: "recur-run",
        make: recurring,
        at: |name| format!("/recurring/{name}"),
        is_done: |sandbox, name| recur(sandbox, name)["latest"].is_object(),
        ..ROW
    },
    Row {
        act: "recur-pause",
        make: recurring,
        at: |name| format!("/recurring/{name}"),
        is_done: |sandbox, name| recur(sandbox, name)["paused"].is_object(),
        ..ROW
    },
    Row {
        act: "recur-resume",
        make: |sandbox| {
            let name = recurring(sandbox);
            sandbox.ok(&["recur", "pause", &name]);
            name
        },
        at: |name| format!("/recurring/{name}"),
        is_done: |sandbox, name| recur(sandbox, name)["paused"].is_null(),
        ..ROW
    },
    Row {
        act: "recur-remove",
        make: recurring,
        at: |name| format!("/recurring/{name}"),
        is_done: |sandbox, name| !sandbox.run(&["recur", "show", name]).status.success(),
        ..ROW
    },
];

fn job(name: &str) -> String {
    format!("/job/{name}")
}

fn list(_: &str) -> String {
    "/jobs".into()
}

fn failures(_: &str) -> String {
    "/failures".into()
}

fn failed(sandbox: &Sandbox) -> String {
    let job = sandbox.put(&["sh", "-c", "exit 4"]);
    wait_until("it has failed", || sandbox.state(&job) == "failed");
    job
}

/// A job that no pool takes.
fn waiting(sandbox: &Sandbox) -> String {
    sandbox.ok(&["put", "later", "Send", "{}"]).trim().to_owned()
}

fn queue(sandbox: &Sandbox, verb: &str) -> String {
    waiting(sandbox);
    sandbox.ok(&["queue", verb, "later"]);
    "later".into()
}

fn pool(sandbox: &Sandbox, order: &[&str]) -> String {
    let (verb, rest) = order.split_first().unwrap();
    sandbox.ok(&[&[*verb, "default"], rest].concat());
    "default".into()
}

fn recurring(sandbox: &Sandbox) -> String {
    sandbox.run(&["recur", "remove", "nightly"]);
    sandbox.ok(&["recur", "put", "nightly", "--cron", "0 3 * * *", "later", "Send", "{}"]);
    "nightly".into()
}

fn is_gone(sandbox: &Sandbox, name: &str) -> bool {
    !sandbox.run(&["job", "show", name]).status.success()
}

fn history(sandbox: &Sandbox, name: &str, entry: &str) -> bool {
    let history = sandbox.job(name)["history"].to_string();
    history.contains(entry) && history.contains("uid 0 (web)")
}

fn queues(sandbox: &Sandbox) -> Value {
    sandbox.json(&["queue", "list", "--json"])
}

fn the_pool(sandbox: &Sandbox) -> Value {
    sandbox.status()["pools"][0].clone()
}

fn recur(sandbox: &Sandbox, name: &str) -> Value {
    sandbox.json(&["recur", "show", name, "--json"])
}

/// How a reader goes from control to control.
trait Hand {
    /// Comes to the content of a page.
    fn begins(&self, browser: &Browser);
    /// Uses a control.
    fn uses(&self, browser: &Browser, selector: &str);
    /// Checks a box.
    fn checks(&self, browser: &Browser, selector: &str);
    /// Fills a field of the question.
    fn fills(&self, browser: &Browser, selector: &str, text: &str);
}

/// With keys alone.
struct Keys;

impl Keys {
    /// Tab goes through all that can be used, forwards or back.
    fn reach(browser: &Browser, selector: &str, back: bool) {
        let mut passed = Vec::new();
        while browser.js(&format!("return document.activeElement.matches(`{selector}`)")) != true {
            if back {
                browser.chord(SHIFT, TAB)
            } else {
                browser.keys(TAB)
            }
            passed.push(browser.text("return document.activeElement.textContent.slice(0, 30)"));
            assert!(passed.len() < 60, "Tab does not reach {selector}: {passed:?}");
        }
        assert!(is_seen(browser), "{selector} has the focus and is not seen");
    }
}

/// Whether at the place of what has the focus stands itself, and nothing that covers it.
fn is_seen(browser: &Browser) -> bool {
    let found = browser.js(
        "const one = document.activeElement, box = one.getBoundingClientRect();
         const found = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
         return !!found && (one.contains(found) || !!one.labels && [...one.labels].some((label) => label.contains(found)))",
    );
    found == true
}

impl Hand for Keys {
    fn begins(&self, browser: &Browser) {
        self.uses(browser, "a.skip");
    }

    fn uses(&self, browser: &Browser, selector: &str) {
        Keys::reach(browser, selector, false);
        browser.keys(ENTER);
    }

    fn checks(&self, browser: &Browser, selector: &str) {
        Keys::reach(browser, selector, false);
        browser.keys(" ");
        assert_eq!(browser.js("return document.activeElement.checked"), true);
    }

    fn fills(&self, browser: &Browser, selector: &str, text: &str) {
        // The button has the focus first, and the fields stand before it.
        Keys::reach(browser, "form.ask button", false);
        Keys::reach(browser, selector, true);
        browser.chord(CONTROL, "a");
        browser.keys(text);
    }
}

/// With the mouse.
struct Mouse;

impl Hand for Mouse {
    fn begins(&self, _: &Browser) {}

    fn uses(&self, browser: &Browser, selector: &str) {
        browser.click(selector);
    }

    fn checks(&self, browser: &Browser, selector: &str) {
        browser.click(selector);
    }

    fn fills(&self, browser: &Browser, selector: &str, text: &str) {
        browser.fill(selector, text);
    }
}

/// Gives every order.
fn walk(hand: &impl Hand, scripts: bool) {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1", "--retries", "0"]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    browser.scripts(scripts);
    for row in ROWS {
        // The page of the row before updates itself: it could show what this row makes before the order is given.
        browser.go("about:blank");
        let name = (row.make)(&sandbox);
        assert!(!(row.is_done)(&sandbox, &name), "{} is done before it is ordered", row.act);
        let path = (row.at)(&name);
        browser.go_to(&page.at(&path), &path);
        hand.begins(&browser);
        let button = if row.by_box {
            hand.checks(&browser, &format!("input[type=checkbox][value=\"{name}\"]"));
            format!("button[name=act][value={}]", row.act)
        } else {
            format!("a.button[href*=\"act={}&\"]", row.act)
        };
        hand.uses(&browser, &button);
        browser.wait("it asks", "return location.pathname === '/act' && document.readyState === 'complete' && !!document.querySelector('form.ask')");
        for (field, text) in row.typed {
            hand.fills(&browser, &format!("#{field}"), text);
        }
        hand.uses(&browser, "form.ask button");
        browser.wait("it leads back", "return location.pathname !== '/act' && document.readyState === 'complete' && !!document.querySelector('.notice')");
        let said = browser.text("return document.querySelector('.notice').textContent");
        assert_eq!(
            browser.js("return !!document.querySelector('.notice.failed')"),
            false,
            "{}: {said}",
            row.act
        );
        wait_until(&format!("{} is carried out; the page said: {said}", row.act), || {
            (row.is_done)(&sandbox, &name)
        });
    }
    // What is no order: signing out.
    hand.uses(&browser, "form[action='/leave'] button");
    browser.wait("it is signed out", "return document.body.innerText.includes('You are signed out')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn all_orders_of_the_page_are_in_the_list_of_these_tests() {
    let listed: BTreeSet<&str> = ROWS.iter().map(|row| row.act).collect();
    assert_eq!(listed, ::web::acts().collect());
}

#[test]
fn every_order_is_given_by_the_keyboard_alone() {
    walk(&Keys, true);
}

#[test]
fn every_order_is_given_in_a_browser_that_runs_no_script() {
    walk(&Mouse, false);
}

#[test]
fn bar_below_a_list_covers_nothing_that_has_the_focus() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let lines: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    std::fs::write(sandbox.path("lines"), lines.join("\n")).unwrap();
    let mut put = sandbox.command(&["put", "-q", "later", "--lines", "--", "true"]);
    put.stdin(std::fs::File::open(sandbox.path("lines")).unwrap());
    assert!(put.output().unwrap().status.success());
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    browser.go_to(&page.at("/jobs"), "/jobs");
    for width in [360, 1440] {
        browser.look(width, "light");
        browser.js("scrollTo(0, 0); document.querySelectorAll('input[type=checkbox]')[5].focus(); return 1");
        for _ in 0..60 {
            browser.keys(TAB);
            let name = browser.text("return document.activeElement.outerHTML.slice(0, 200)");
            assert!(is_seen(&browser), "at {width}: {name}");
        }
    }
}
