//! Recurring jobs that are changed on a page, and jobs that need one another.

use std::process::Command;

use crate::browser::Browser;
use crate::page::{Served, status};
use crate::sandbox::{Sandbox, Setting};

/// What the page has told its reader last.
fn told(page: &Served, cookie: &str) -> String {
    let shown = page.ask("GET", "/", &[cookie], "");
    shown.split("class=\"notice").nth(1).unwrap_or_else(|| panic!("{shown}")).to_owned()
}

/// The value of a field of the form.
fn field<'a>(form: &'a str, name: &str) -> &'a str {
    let rest = form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap_or_else(|| panic!("{form}"));
    rest.split('"').next().unwrap()
}

/// Runs a line as a shell does in this sandbox.
fn shell(sandbox: &Sandbox, line: &str) {
    let taskvisor = sandbox.command(&[]);
    let script = format!("taskvisor() {{ '{}' \"$@\"; }}; {line}", taskvisor.get_program().display());
    let mut command = Command::new("sh");
    let set = taskvisor.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(["-c", &script]).envs(set).current_dir(sandbox.path("work"));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn recurring_job_is_changed_by_a_form_and_by_the_command_that_it_shows() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let put =
        ["recur", "put", "nightly", "--cron", "0 3 * * *", "--tz", "UTC", "--tag", "a b", "--priority", "7"];
    sandbox.ok(&[&put[..], &["mail", "mail.Send", r#"{"to": "ada"}"#]].concat());
    let shown = || sandbox.json(&["recur", "show", "nightly", "--json"]);
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    // A script that is cut off in its work would be told as an error.
    browser.go("about:blank");
    browser.complaints();
    browser.cdp("Emulation.setScriptExecutionDisabled", &serde_json::json!({ "value": true }));
    browser.go_to(&page.at("/recurring/nightly"), "/recurring/nightly");
    browser.js("[...document.querySelectorAll('.buttons a')].find((one) => one.textContent === 'Change…').focus(); return 1");
    browser.keys("\u{e007}");
    browser.wait("it asks", "return location.pathname === '/act' && !!document.getElementById('when')");
    assert_eq!(browser.text("return document.getElementById('data').value"), r#"{"to": "ada"}"#);
    browser.js(
        "document.getElementById('when').value = '30 4 * * mon'; document.getElementById('zone').value = 'Europe/Vienna'; \
         document.getElementById('data').value = '{\"to\": \"it\\'s bob\"}'; document.getElementById('catch_up').value = '2h'; \
         document.querySelector('form.ask button').focus(); return 1",
    );
    browser.keys("\u{e007}");
    browser.wait(
        "it leads back",
        "return location.pathname === '/recurring/nightly' && !!document.querySelector('.notice')",
    );
    let by_page = shown();
    let said = browser.text("return document.querySelector('.notice').textContent");
    assert!(said.contains("nightly is changed"), "{said}");
    let recurring = &by_page["recurring"];
    assert_eq!(recurring["schedule"]["cron"]["line"], "30 4 * * mon");
    assert_eq!(recurring["schedule"]["cron"]["zone"], "Europe/Vienna");
    assert_eq!(
        (&recurring["job"]["data"]["to"], &recurring["job"]["priority"]),
        (&"it's bob".into(), &7.into())
    );
    assert_eq!(by_page["put_by"], "uid 0 (web)");

    // The command that it shows leads to the same.
    let command = browser.text("return document.querySelector('.notice .command code').textContent");
    sandbox.ok(&["recur", "remove", "nightly"]);
    shell(&sandbox, &command);
    assert_eq!(shown()["recurring"], by_page["recurring"], "{command}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn next_times_are_by_the_clock_of_the_schedule() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    sandbox.ok(&["recur", "put", "early", "--cron", "30 9 * * *", "--tz", "Asia/Kathmandu", "--", "true"]);
    let page = Served::start(&sandbox, &[]);
    let shown = page.ask("GET", "/recurring/early", &[&page.enter()], "");
    assert_eq!(shown.matches(" 09:30:00 <").count(), 5, "{shown}");
}

#[test]
fn wrong_change_of_a_recurring_job_is_refused_and_hidden_data_stays() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    sandbox.ok(&[
        "recur",
        "put",
        "poll",
        "--every",
        "10m",
        "--offset",
        "1m",
        "mail",
        "Poll",
        r#"{"pin": "canary"}"#,
    ]);
    let shown = || sandbox.json(&["recur", "show", "poll", "--json"])["recurring"].clone();
    let before = shown();
    let page = Served::start(&sandbox, &["--redact", "pin"]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let asked = page.ask("GET", "/act?act=recur-edit&name=poll", &[&cookie], "");
    assert!(status(&asked) == 200 && !asked.contains("canary") && !asked.contains("textarea"), "{asked}");
    for wrong in ["when=never", "catch_up=soon", "overlap=x", "when=0+3+*+*+*&zone=Nowhere%2FTown"] {
        page.ask("POST", "/act", &[&cookie, &mine], &format!("act=recur-edit&name=poll&{wrong}"));
        let told = page.ask("GET", "/", &[&cookie], "");
        assert!(told.contains("notice failed"), "{wrong}: {told}");
        assert_eq!(shown(), before, "{wrong}");
    }
    page.ask("POST", "/act", &[&cookie, &mine], "act=recur-edit&name=poll&when=20m");
    assert_eq!(shown()["schedule"]["every"]["interval"], 1200.0);
    assert_eq!((&shown()["job"], &shown()["schedule"]["every"]["offset"]), (&before["job"], &60.0.into()));
}

#[test]
fn interval_keeps_its_first_delay_in_the_command_and_becomes_a_line_in_utc() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    sandbox.ok(&["recur", "put", "poll", "--every", "10m", "--offset", "1m", "mail", "Poll", "{}"]);
    let page = Served::start(&sandbox, &[]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let asked = page.ask("GET", "/act?act=recur-edit&name=poll", &[&cookie], "");
    assert!(asked.contains("--every 10m --offset 1m"), "{asked}");
    let body = "act=recur-edit&name=poll&zone=&when=0+3+*+*+*";
    page.ask("POST", "/act", &[&cookie, &mine], body);
    let now = sandbox.json(&["recur", "show", "poll", "--json"]);
    assert_eq!(now["recurring"]["schedule"]["cron"]["zone"], "UTC", "{}", told(&page, &cookie));
}

#[test]
fn form_leaves_data_alone_that_nobody_changed_and_undoes_no_change_of_another() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    sandbox.ok(&["recur", "put", "poll", "--every", "10m", "--raw", "mail", "Poll", "no json\nof two lines"]);
    let shown = || sandbox.json(&["recur", "show", "poll", "--json"])["recurring"].clone();
    let before = shown();
    let page = Served::start(&sandbox, &[]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let form = page.ask("GET", "/act?act=recur-edit&name=poll", &[&cookie], "");
    let change = |more: &str| {
        let body = format!("act=recur-edit&name=poll&seen={}&{more}", field(&form, "seen"));
        page.ask("POST", "/act", &[&cookie, &mine], &body);
        told(&page, &cookie)
    };
    let said = change("overlap=allow&data=no+json%0D%0Aof+two+lines");
    assert!(said.contains("poll is changed"), "{said}");
    assert_eq!((&shown()["job"], &shown()["overlap"]), (&before["job"], &"allow".into()));
    let said = change("overlap=skip");
    assert!(said.contains("poll is not changed") && said.contains("open the form again"), "{said}");
    assert_eq!(shown()["overlap"], "allow");
}

#[test]
fn job_shows_those_before_and_after_it_each_once_and_a_limited_number() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let put = |class: &str, needs: &[&str]| {
        let needs = needs.join(",");
        let depends = if needs.is_empty() { vec![] } else { vec!["--depends", &needs] };
        sandbox.ok(&[&["put"], &depends[..], &["later", class, "{}"]].concat()).trim().to_owned()
    };
    let first = put("First", &[]);
    let [left, right] = ["Left", "Right"].map(|class| put(class, &[&first]));
    let last = put("Last", &[&left, &right]);
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let section = |job: &str| {
        let shown = page.ask("GET", &format!("/job/{job}"), &[&cookie], "");
        shown
            .split("id=\"h-needs\"")
            .nth(1)
            .unwrap_or_default()
            .split("</section>")
            .next()
            .unwrap()
            .to_owned()
    };
    let shown = section(&last);
    for part in ["It waits for", "Left", "Right", ", see above"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("These wait for it") && shown.matches("First").count() == 2, "{shown}");
    let shown = section(&first);
    assert!(shown.contains("These wait for it") && !shown.contains("It waits for"), "{shown}");
    for _ in 0..30 {
        put("More", &[&first]);
    }
    let shown = section(&first);
    assert!(shown.matches("<li").count() == 24 && shown.contains("and more: 24 are shown"), "{shown}");
}

#[test]
fn job_is_put_again_by_the_command_that_its_form_shows() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let put =
        ["put", "--priority", "3", "--tag", "a b", "--time-limit", "1m", "mail", "Send", r#"{"n": 1.10}"#];
    let job = sandbox.ok(&put).trim().to_owned();
    let page = Served::start(&sandbox, &[]);
    let (cookie, own) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let asked = page.ask("GET", &format!("/act?act=again&job={job}"), &[&cookie], "");
    let line = |data: &str| {
        format!("taskvisor put --priority 3 --tag &#39;a b&#39; --time-limit 1m mail Send {data}")
    };
    assert!(asked.contains(&line("&#39;{&quot;n&quot;: 1.10}&#39;")), "{asked}");
    let form = format!("act=again&job={job}&queue=mail&class=Send&data=7");
    assert_eq!(status(&page.ask("POST", "/act", &[&cookie, &own], &form)), 303);
    assert!(page.ask("GET", "/", &[&cookie], "").contains(&line("7")));
    let newest = sandbox.lines(&["job", "list", "--json", "-n", "1"]).remove(0);
    let newest = sandbox.job(newest["id"].as_str().unwrap());
    assert_eq!(
        (&newest["data"], &newest["priority"], &newest["tags"][0]),
        (&7.into(), &3.into(), &"a b".into())
    );
}

#[test]
fn queue_without_jobs_is_forgotten_from_its_page() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let job = sandbox.ok(&["put", "mial", "Send"]).trim().to_owned();
    let page = Served::start(&sandbox, &[]);
    let (cookie, own) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let button = "/act?act=queue-forget&amp;queue=mial&amp;back=%2Fqueues";
    assert!(!page.ask("GET", "/queue/mial", &[&cookie], "").contains(button), "it has a job");
    let order = "act=queue-forget&queue=mial&back=%2Fqueues";
    assert_eq!(status(&page.ask("POST", "/act", &[&cookie, &own], order)), 303);
    assert!(told(&page, &cookie).contains("mial"), "it says why it stays");
    sandbox.ok(&["job", "cancel", &job]);
    sandbox.ok(&["job", "discard", &job]);
    assert!(page.ask("GET", "/queue/mial", &[&cookie], "").contains(button));
    let asked = page.ask("GET", &format!("/act?{order}"), &[&cookie], "");
    assert!(asked.contains("taskvisor queue forget mial"), "{asked}");
    assert_eq!(status(&page.ask("POST", "/act", &[&cookie, &own], order)), 303);
    assert!(told(&page, &cookie).contains("Queue mial is forgotten"));
    assert!(sandbox.json(&["queue", "list", "--json"])["mial"].is_null());
}
