//! Charts of what happened over time.

use crate::browser::Browser;
use crate::page::{Served, put};
use crate::sandbox::{Sandbox, Setting, wait_until};

#[test]
fn charts_say_in_words_and_in_a_table_what_happened_and_nothing_moves_when_they_change() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0", "-q", "default", "-q", "other"]);
    for program in ["true", "true", "false"] {
        put(&sandbox, "other", &[program]);
    }
    sandbox.put(&["true"]);
    let done = || {
        ["other", "default"]
            .map(|queue| sandbox.json(&["queue", "list", "--json"])[queue]["jobs"]["complete"].as_u64())
    };
    wait_until("all have ended", || done() == [Some(2), Some(1)]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    let first = "return document.querySelector('.chart svg.graph').getAttribute('aria-label')";
    let begins = "Jobs a minute: 4 put, 3 complete, 1 attempts failed";
    wait_until("the chart has them", || browser.text(first).starts_with(begins));
    // Nothing is to move while jobs come and charts change.
    browser.js("window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach((one) => { window.moved += one.value; })).observe({ type: 'layout-shift' }); document.querySelector('.charts + details').open = true; return 1");
    let sum = |column: u8| {
        format!(
            "[...document.querySelectorAll('.charts + details tbody tr')].reduce((sum, row) => sum + Number(row.cells[{column}].textContent), 0)"
        )
    };
    assert_eq!(browser.js(&format!("return {}", sum(1))), 4);
    for _ in 0..3 {
        sandbox.put(&["true"]);
    }
    browser.wait("the open table follows", &format!("return {} === 7 && {} === 6", sum(1), sum(3)));
    assert_eq!(browser.js("return window.moved"), 0.0);

    // One queue, the day, and without a script: one that is cut off in its work would be told as an error.
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.go("about:blank");
    browser.complaints();
    browser.cdp("Emulation.setScriptExecutionDisabled", &serde_json::json!({ "value": true }));
    browser.go_to(&page.at("/queue/other"), "/queue/other");
    browser.js("document.querySelector('#h-course + nav a:last-child').focus(); return 1");
    browser.keys("\u{e007}");
    browser.wait("it shows the day", "return location.search === '?span=day' && document.querySelector('#h-course').textContent === 'The last day'");
    assert!(
        browser.text(first).starts_with("Jobs in 20m: 3 put, 2 complete, 1 attempts failed"),
        "{}",
        browser.text(first)
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn batch_shows_when_its_jobs_ended() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    for program in ["true", "false", "true"] {
        sandbox.ok(&["put", "--batch", "letters", "--", program]);
    }
    wait_until("all have ended", || {
        sandbox.json(&["batch", "show", "letters", "--json"])["states"]["complete"] == 2
    });
    let ends = &sandbox.json(&["batch", "show", "letters", "--json"])["ends"];
    let sum =
        |name: &str| ends[name].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum::<u64>();
    assert_eq!((sum("complete"), sum("canceled")), (2, 0), "{ends}");
    let page = Served::start(&sandbox, &[]);
    let shown = page.ask("GET", "/batch/letters", &[&page.enter()], "");
    assert!(shown.contains("2 complete, 1 failed, 0 canceled"), "{shown}");
}

#[test]
fn first_page_is_small_and_is_asked_of_nobody_else() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    browser.wait("it listens", "return performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length > 0");
    let asked = browser.js(
        "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
           .map((one) => [one.name, one.encodedBodySize])",
    );
    let asked: Vec<(String, u64)> = serde_json::from_value(asked).unwrap();
    assert!(asked.iter().all(|(name, _)| name.starts_with(&page.at("/"))), "{asked:?}");
    // The page, the two files, and what has changed since; the stream of changes goes on.
    assert_eq!(asked.iter().filter(|(name, _)| !name.ends_with("/live")).count(), 4, "{asked:?}");
    assert!(asked.iter().map(|(_, bytes)| bytes).sum::<u64>() <= 40_000, "{asked:?}");
}
