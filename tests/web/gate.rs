//! Who may come in, and what may be sent.

use std::fs;
use std::io::Read;

use crate::page::{Served, put, status};
use crate::sandbox::{Sandbox, Setting, wait_until};

#[test]
fn only_the_printed_address_opens_the_page_and_only_once() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    let refused = page.ask("GET", "/jobs", &[], "");
    assert_eq!(status(&refused), 401, "{refused}");
    let path = page.url.split_once(&format!(":{}", page.port)).unwrap().1;
    let previewed = page.ask("HEAD", path, &[], "");
    assert!(status(&previewed) == 200 && !previewed.contains("set-cookie"), "{previewed}");
    let cookie = page.enter();
    assert_eq!(status(&page.ask("GET", path, &[], "")), 401, "the key is spent");
    let shown = page.ask("GET", "/", &[&cookie], "");
    assert_eq!(status(&shown), 200, "{shown}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
    ] {
        assert!(shown.contains(header), "{header}: {shown}");
    }
    assert!(!shown.contains(" style=") && !shown.contains(" onclick="), "nothing inline");
    let entered = page.ask("GET", "/enter?key=x", &[], "");
    assert!(!entered.contains("set-cookie"), "{entered}");
    for path in ["/static/", "/static/x", "/static//x", "/static/x/", "/static/x/../../etc/passwd"] {
        assert_eq!(status(&page.ask("GET", path, &[], "")), 401, "{path}");
        assert_eq!(status(&page.ask("GET", path, &[&cookie], "")), 404, "{path}");
    }
    let names = ["host: evil.example.org", "host: 127.0.0.1.evil.org"];
    for name in names {
        assert_eq!(status(&page.ask("GET", "/", &[name, &cookie], "")), 403, "{name}");
    }
}

#[test]
fn answer_outside_of_the_path_of_the_page_is_as_closed_as_the_page() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &["--path", "/jobs"]);
    for path in ["/", "/jobsx", "/other?x=b"] {
        let said = page.ask("GET", path, &[], "");
        assert_eq!(status(&said), 404, "{said}");
        for header in ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff"] {
            assert!(said.contains(header), "{path} {header}: {said}");
        }
    }
}

#[test]
fn link_from_elsewhere_leads_back_here_and_nowhere_else() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    let linked = "sec-fetch-site: cross-site";
    let shown = page.ask("GET", "/jobs?q=//evil.example.org", &[linked], "");
    assert!(shown.contains("content=\"0;url=/jobs?q=//evil.example.org\""), "{shown}");
    for path in ["//evil.example.org", "/\\evil.example.org", "/a\\..\\\\evil.example.org"] {
        let shown = page.ask("GET", path, &[linked], "");
        assert!([400, 404].contains(&status(&shown)) && !shown.contains("refresh"), "{path}: {shown}");
    }
}

#[test]
fn orders_of_other_pages_and_of_viewers_are_refused() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let job = sandbox.put(&["false"]);
    sandbox.run(&["job", "wait", &job]);
    let order = format!("act=discard&job={job}");
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let mine = format!("origin: http://127.0.0.1:{}", page.port);
    for sent in [
        vec![],
        vec!["origin: http://evil.example.org"],
        vec!["origin: null"],
        vec!["sec-fetch-site: cross-site", mine.as_str()],
        vec!["sec-fetch-site: same-site"],
    ] {
        let answer = page.ask("POST", "/act", &[&[cookie.as_str()], sent.as_slice()].concat(), &order);
        assert_eq!(status(&answer), 403, "{sent:?}");
    }
    assert_eq!(status(&page.ask("POST", "/act", &[&mine], &order)), 401, "without a session");
    assert_eq!(
        status(&page.ask("GET", &format!("/act?{order}"), &[&cookie], "")),
        200,
        "a question changes nothing"
    );
    assert_eq!(sandbox.state(&job), "failed");

    let viewed = Served::start(&sandbox, &["--read-only"]);
    let (cookie, own) = (viewed.enter(), format!("origin: http://127.0.0.1:{}", viewed.port));
    assert_eq!(status(&viewed.ask("POST", "/act", &[&cookie, &own], &order)), 403);
    let shown = viewed.ask("GET", &format!("/job/{job}"), &[&cookie], "");
    assert!(status(&shown) == 200 && !shown.contains("/act?"), "{shown}");
    assert_eq!(sandbox.state(&job), "failed");
}

#[test]
fn view_token_opens_a_session_that_changes_nothing() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["--retries", "0"]);
    let job = sandbox.put(&["false"]);
    wait_until("it has failed", || sandbox.state(&job) == "failed");
    let file = |name: &str, token: &str| {
        fs::write(sandbox.path(name), token).unwrap();
        fs::set_permissions(sandbox.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        sandbox.path(name).display().to_string()
    };
    let [all, view] = [file("all", "a-token-that-may-all"), file("view", "a-token-that-may-look")];
    let page = Served::start(&sandbox, &["--login-token-file", &all, "--view-token-file", &view]);
    let own = format!("origin: http://127.0.0.1:{}", page.port);
    let entered = page.ask("POST", "/enter", &[&own], "token=a-token-that-may-look");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains("Secure"), "{cookie}");
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    for path in ["/jobs".to_owned(), "/failures".into(), format!("/job/{job}"), "/workers".into()] {
        let shown = page.ask("GET", &path, &[&cookie], "");
        assert!(
            status(&shown) == 200 && !shown.contains("/act") && shown.contains("view only"),
            "{path}: {shown}"
        );
    }
    let order = format!("act=retry&job={job}");
    assert_eq!(status(&page.ask("GET", &format!("/act?{order}"), &[&cookie], "")), 403);
    assert_eq!(status(&page.ask("POST", "/act", &[&cookie, &own], &order)), 403);
    assert_eq!(sandbox.state(&job), "failed");
    let behind_tls =
        page.ask("POST", "/enter", &[&own, "x-forwarded-proto: https"], "token=a-token-that-may-all");
    assert!(behind_tls.contains("; Secure\r\n"), "{behind_tls}");
    assert_eq!(status(&page.ask("POST", "/enter", &[&own], "token=a-token")), 401);
}

#[test]
fn hangup_ends_a_page_that_nobody_could_enter_again() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let mut page = Served::start(&sandbox, &[]);
    page.enter();
    page.hang_up();
    wait_until("it has ended", || page.ended() == Some(0));

    let token = sandbox.path("token");
    fs::write(&token, "sixteen-letters-at-least").unwrap();
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut page = Served::start(&sandbox, &["--login-token-file", token.to_str().unwrap()]);
    let mine = format!("origin: http://127.0.0.1:{}", page.port);
    let enter = |page: &Served| page.ask("POST", "/enter", &[&mine], "token=sixteen-letters-at-least");
    let entered = enter(&page);
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(status(&page.ask("GET", "/", &[&cookie], "")), 200);
    page.hang_up();
    wait_until("all sessions end", || status(&page.ask("GET", "/", &[&cookie], "")) == 401);
    assert!(enter(&page).contains("set-cookie"));
    assert_eq!(page.ended(), None);
}

#[test]
fn open_streams_end_with_their_session() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2"]);
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let mine = format!("origin: http://127.0.0.1:{}", page.port);
    let go = sandbox.path("go");
    let script = format!("while ! [ -e {} ]; do sleep 0.05; done; echo secret; sleep 1000", go.display());
    let job = sandbox.put(&["sh", "-c", &script]);
    wait_until("it runs", || sandbox.state(&job) == "running");
    let (mut live, code) = page.open("/live", &[&cookie]);
    assert_eq!(code, 200);
    let (mut output, code) = page.open(&format!("/job/{job}/output"), &[&cookie]);
    assert_eq!(code, 200);
    assert_eq!(status(&page.ask("POST", "/leave", &[&cookie, &mine], "")), 200);
    fs::write(&go, "").unwrap();
    let later = put(&sandbox, "later", &["true"]);
    let (mut told, mut said) = (String::new(), String::new());
    live.read_to_string(&mut told).unwrap();
    output.read_to_string(&mut said).unwrap();
    assert!(!told.contains(&later), "{told}");
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn page_follows_eight_outputs_at_a_time_and_no_more() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2"]);
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let job = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&job) == "running");
    let path = format!("/job/{job}/output");
    let mut followed: Vec<_> = (0..8).map(|_| page.open(&path, &[&cookie])).collect();
    assert!(followed.iter().all(|(_, code)| *code == 200));
    assert_eq!(page.open(&path, &[&cookie]).1, 503);
    followed.pop();
    wait_until("the place is free again", || page.open(&path, &[&cookie]).1 == 200);
    drop(followed);
}
