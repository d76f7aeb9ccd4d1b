//! What lists lead to: names, commands, options of queues, all groups of failures.

use std::process::Command;

use crate::browser::Browser;
use crate::page::{Served, put, status};
use crate::sandbox::{Sandbox, Setting, wait_until};

#[test]
fn things_that_are_called_as_places_of_a_url_have_pages() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    for name in [".", "..", "~.."] {
        sandbox.ok(&["put", "--jid", name, "--batch", name, name, "Send", "{}"]);
    }
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    for (list, titles) in [
        ("/queues", ["Queue .", "Queue ..", "Queue ~.."]),
        ("/batches", ["Batch .", "Batch ..", "Batch ~.."]),
        ("/jobs", ["Job .", "Job ..", "Job ~.."]),
    ] {
        for (name, title) in [".", "..", "~.."].into_iter().zip(titles) {
            browser.go_to(&page.at(list), list);
            let link = format!(
                "[...document.querySelectorAll('tbody th a, tbody a.id')].find((one) => one.textContent === '{name}')"
            );
            browser.js(&format!("{link}.click(); return 1"));
            browser.wait(title, &format!("return document.title === '{title} · taskvisor'"));
        }
    }
}

#[test]
fn commands_lead_to_the_same_jobs_from_any_shell() {
    let [here, there] = [(), ()].map(|()| Sandbox::new(Setting::Root));
    let _running = there.start(&["--retries", "0"]);
    let job = there.put(&["false"]);
    wait_until("it has failed", || there.state(&job) == "failed");
    let run_dir = there.path("run").display().to_string();
    let broker = format!("sqlite:{}", there.path("state/store.db").display());
    let page = Served::start(&here, &["--run-dir", &run_dir, "-b", &broker]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let line = |shown: &str| {
        let rest = shown.split("The same in a shell</span><code><bdi>").nth(1);
        rest.unwrap_or_else(|| panic!("{shown}")).split('<').next().unwrap().replace("&#39;", "'")
    };
    let options = format!("taskvisor --run-dir {run_dir} -b {broker} ");
    for path in ["/jobs", "/failures", "/queues", "/workers", "/config", &format!("/job/{job}")] {
        let shown = page.ask("GET", path, &[&cookie], "");
        assert!(line(&shown).starts_with(&options), "{path}: {shown}");
    }
    let asked = page.ask("GET", &format!("/act?act=retry&job={job}"), &[&cookie], "");
    assert_eq!(line(&asked), format!("{options}job retry {job}"));
    page.ask("POST", "/act", &[&cookie, &mine], "act=queue-pause&queue=mail&reason=lunch+time");
    let told = line(&page.ask("GET", "/", &[&cookie], ""));
    assert_eq!(told, format!("{options}queue pause --reason 'lunch time' mail"));
    there.ok(&["queue", "resume", "mail"]);

    // Pasted into a shell that knows of another place it does what it says.
    let ours = here.command(&[]);
    let set = ours.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let script = format!("taskvisor() {{ '{}' \"$@\"; }}; {told}", ours.get_program().display());
    assert!(Command::new("sh").args(["-c", &script]).envs(set).status().unwrap().success());
    assert!(there.json(&["queue", "list", "--json"])["mail"]["paused"].to_string().contains("lunch time"));
}

#[test]
fn failures_of_all_groups_are_retried_at_once_and_counted_before() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["--retries", "0"]);
    let jobs: Vec<String> =
        ["4", "4", "5"].map(|code| sandbox.put(&["sh", "-c", &format!("exit {code}")])).into();
    wait_until("all have failed", || jobs.iter().all(|job| sandbox.state(job) == "failed"));
    sandbox.ok(&["pause"]);
    let page = Served::start(&sandbox, &[]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let shown = page.ask("GET", "/failures", &[&cookie], "");
    assert!(shown.contains(">Retry all 3 failed<") && shown.contains(">Discard all 3 failed…<"), "{shown}");
    let order = "act=retry-all&state=failed";
    let asked = page.ask("GET", &format!("/act?{order}"), &[&cookie], "");
    assert!(asked.contains("<strong data-count=\"3\">3</strong>"), "{asked}");
    assert_eq!(status(&page.ask("POST", "/act", &[&cookie, &mine], order)), 303);
    assert!(jobs.iter().all(|job| sandbox.state(job) == "waiting"));
    assert!(!page.ask("GET", "/failures", &[&cookie], "").contains("Retry all 3"), "nothing is left");
}

#[test]
fn options_of_a_queue_are_set_and_unset_on_its_page() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    put(&sandbox, "mail", &["true"]);
    let page = Served::start(&sandbox, &[]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let shown = || page.ask("GET", "/queue/mail", &[&cookie], "");
    let is = |value: &str, from: &str| {
        let shown = shown();
        let row = shown.split("data-option=\"max_concurrency\"").nth(1).unwrap_or_else(|| panic!("{shown}"));
        assert!(row.starts_with(&format!("><bdi>{value}</bdi></td><td>{from}")), "{row}");
    };
    is("0", "<span class=\"dim\">default");
    let set = |fields: &str| {
        page.ask("POST", "/act", &[&cookie, &mine], &format!("act=queue-set&queue=mail&{fields}"))
    };
    set("max_concurrency=5&grace=");
    is("5", "this queue");
    let option = |name: &str| sandbox.ok(&["option", "get", name, "-q", "mail"]).trim().to_owned();
    assert_eq!((option("max_concurrency"), option("grace")), ("5".into(), "10s".into()));
    // Of two changes one is wrong: none is made.
    set("max_concurrency=7&grace=never");
    assert_eq!(option("max_concurrency"), "5");
    sandbox.ok(&["option", "set", "max_concurrency", "9"]);
    let asked = page.ask("GET", "/act?act=queue-set&queue=mail", &[&cookie], "");
    assert!(asked.contains("name=\"max_concurrency\" value=\"5\" placeholder=\"9\""), "{asked}");
    set("max_concurrency=&grace=20s");
    let told = page.ask("GET", "/", &[&cookie], "");
    is("9", "all queues");
    assert_eq!(option("grace"), "20s");
    let line = "taskvisor option set --queue mail grace 20s &amp;&amp; taskvisor option unset --queue mail max_concurrency";
    assert!(told.contains(line), "{told}");
}
