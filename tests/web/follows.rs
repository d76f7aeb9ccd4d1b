//! Pages that follow what happens, and orders from them.

use std::time::{Duration, Instant};

use crate::browser::Browser;
use crate::page::{Served, put};
use crate::sandbox::{Sandbox, Setting, wait_until};

#[test]
fn open_page_follows_jobs_and_keeps_what_the_reader_does() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    sandbox.ok(&["queue", "pause", "later"]);
    let first = put(&sandbox, "later", &["true"]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    browser.go_to(&page.at("/jobs"), "/jobs");
    let pick = format!("document.querySelector('input[value=\"{first}\"]')");
    browser.js(&format!(
        "{pick}.checked = true; document.getElementById('q').focus(); window.same = {pick}; return 1"
    ));
    browser.keys("sta");
    browser.js("document.querySelector('details.help').open = true; return 1");
    browser.wait("it listens", "return performance.getEntriesByType('resource').some((one) => one.name.endsWith('/live')) || !!window.same");
    let mut took = Vec::new();
    for number in 1..=5 {
        let begun = Instant::now();
        let job = put(&sandbox, "later", &["echo", &number.to_string()]);
        browser.wait(
            "the new job is shown",
            &format!("return !!document.querySelector('tr[data-key=\"{job}\"]')"),
        );
        took.push(begun.elapsed());
    }
    println!("from put to page: {took:?}");
    let kept = browser.js(&format!(
        "return {pick}.checked && {pick} === window.same && document.activeElement.id === 'q' \
         && document.getElementById('q').value === 'sta' && document.querySelector('details.help').open"
    ));
    assert_eq!(kept, true, "what the reader did stays");
    assert!(took.iter().min().unwrap() < &Duration::from_secs(2), "{took:?}");

    // One that runs: its state and its output come by themselves.
    let go = sandbox.path("go");
    let script =
        format!("echo begun; while ! [ -e {} ]; do sleep 0.05; done; printf '\\033[32mgreen'", go.display());
    let job = sandbox.put(&["sh", "-c", &script]);
    wait_until("it runs", || sandbox.state(&job) == "running");
    browser.go(&page.at(&format!("/job/{job}")));
    browser.wait(
        "its output is shown",
        "return document.querySelector('.out pre').textContent.includes('begun')",
    );
    std::fs::write(&go, "").unwrap();
    browser.wait(
        "its end is shown",
        "return document.querySelector('header.job .state').textContent === 'complete'",
    );
    browser.wait(
        "its last words are shown",
        "return document.querySelector('.out .f2')?.textContent === 'green'",
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn eight_tabs_follow_over_the_six_connections_of_a_browser_and_over_a_restart() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    let tabs: Vec<String> = (0..8)
        .map(|_| {
            let tab = browser.tab();
            browser.go_to(&page.at("/jobs"), "/jobs");
            tab
        })
        .collect();
    let all_show = |job: &str| {
        for tab in &tabs {
            browser.go_to_tab(tab);
            browser.wait(
                "the job is shown",
                &format!("return !!document.querySelector('tr[data-key=\"{job}\"]')"),
            );
        }
    };
    all_show(&put(&sandbox, "later", &["true"]));
    // What is asked for again did not come by a reload: a tab keeps what it has.
    browser.js("window.same = 1; return 1");
    sandbox.ok(&["stop", "--kill"]);
    drop(running);
    browser.wait(
        "it says so",
        "return document.getElementById('main').textContent.includes('no supervisor listens')",
    );
    let _next = sandbox.start(&[]);
    all_show(&put(&sandbox, "later", &["true"]));
    assert_eq!(browser.js("return window.same"), 1);
}

#[test]
fn orders_are_given_by_keyboard_and_without_a_script() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    let jobs: Vec<String> = (0..3).map(|_| sandbox.put(&["sh", "-c", "exit 4"])).collect();
    wait_until("all have failed", || jobs.iter().all(|job| sandbox.state(job) == "failed"));
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    // A script that is cut off in its work would be told as an error.
    browser.go("about:blank");
    browser.complaints();
    browser.cdp("Emulation.setScriptExecutionDisabled", &serde_json::json!({ "value": true }));
    browser.go_to(&page.at("/failures"), "/failures");
    // Tab goes through all that can be used; the button for the whole group is one of them.
    let mut words = Vec::new();
    while !words.last().is_some_and(|word: &String| word.starts_with("Retry")) {
        browser.keys("\u{e004}");
        words.push(browser.text("return document.activeElement.textContent"));
        assert!(words.len() < 40, "{words:?}");
    }
    assert_eq!(words.last().unwrap(), "Retry 3");
    assert!(words[0].contains("To the content"), "{words:?}");
    browser.keys("\u{e007}");
    browser.wait("it asks", "return location.pathname === '/act' && !!document.querySelector('form.ask')");
    assert_eq!(browser.text("return document.querySelector('.count strong').textContent"), "3");
    let command = browser.text("return document.querySelector('.command code').textContent");
    assert_eq!(command, "taskvisor job retry --failed --group 'exit 4'");
    // The button has the focus.
    browser.keys("\u{e007}");
    browser.wait(
        "it leads back",
        "return location.pathname === '/failures' && !!document.querySelector('.notice')",
    );
    assert!(
        browser.text("return document.querySelector('.notice').textContent").contains("done with 3 jobs")
    );
    for job in &jobs {
        let history = sandbox.job(job)["history"].to_string();
        assert!(history.contains("retried") && history.contains("uid 0 (web)"), "{history}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn output_that_is_too_long_for_its_page_is_followed_from_where_the_page_ends() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let job = sandbox.put(&["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; exec sleep 1000"]);
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let mut shown = String::new();
    wait_until("the page has as much as it takes", || {
        shown = page.ask("GET", &format!("/job/{job}"), &[&cookie], "");
        shown.contains("There is more")
    });
    assert!(shown.contains("/output?from=") && !shown.contains("/output?from=0\""), "it would come twice");
}

#[test]
fn page_that_says_of_no_change_is_not_fetched_again_by_itself() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    // Before the page's own script, which fetches as soon as it listens.
    let count = "const own = window.fetch; window.fetches = 0; \
                 window.fetch = (...all) => { window.fetches += 1; return own(...all); };";
    browser.cdp("Page.addScriptToEvaluateOnNewDocument", &serde_json::json!({ "source": count }));
    for (path, fetches) in [("/doctor", false), ("/config", true)] {
        browser.go_to(&page.at(path), path);
        browser.js("window.told = false; window.other = new BroadcastChannel('tv-live'); \
             window.other.onmessage = () => { window.told = true; }; \
             window.first = new BroadcastChannel('tv-live'); window.first.postMessage('*'); return 1");
        browser.wait("the page was told that anything may have changed", "return window.told");
        if fetches {
            browser.wait("it is fetched again", "return window.fetches > 0");
        } else {
            assert_eq!(browser.js("return window.fetches"), 0, "each look costs the machine something");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
