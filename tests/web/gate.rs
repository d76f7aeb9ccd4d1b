//! Who may come in, and what may be sent.

use crate::page::{Served, status};
use crate::sandbox::{Sandbox, Setting};

#[test]
fn only_the_printed_address_opens_the_page_and_only_once() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&[]);
    let page = Served::start(&sandbox, &[]);
    let refused = page.ask("GET", "/jobs", &[], "");
    assert_eq!(status(&refused), 401, "{refused}");
    let cookie = page.enter();
    let path = page.url.split_once(&format!(":{}", page.port)).unwrap().1;
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
    let names = ["host: evil.example.org", "host: 127.0.0.1.evil.org"];
    for name in names {
        assert_eq!(status(&page.ask("GET", "/", &[name, &cookie], "")), 403, "{name}");
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
