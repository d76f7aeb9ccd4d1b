//! What a page of another origin can do with the session of a reader, in a real browser: nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::browser::Browser;
use crate::page::Served;
use crate::sandbox::{Sandbox, Setting, wait_until};

/// An empty page of somebody else, at a port of its own.
struct Elsewhere {
    port: u16,
    /// The heads of the requests to it.
    heard: Arc<Mutex<String>>,
}

impl Elsewhere {
    fn start() -> Elsewhere {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(String::new())));
        let told = heard.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A browser opens connections to be ready, on which it asks nothing for a while.
                let (stream, told) = (stream.unwrap(), told.clone());
                thread::spawn(move || answer(stream, &told));
            }
        });
        Elsewhere { port, heard }
    }
}

fn answer(mut stream: TcpStream, heard: &Mutex<String>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        *heard.lock().unwrap() += &std::mem::take(&mut line);
    }
    let page = "<!doctype html><title>elsewhere</title><link rel=icon href='data:,'>";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
    let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
}

/// Sends an order as a form does, and gives what the browser shows then.
fn sent_by_form(browser: &Browser, to: &str, fields: &str, coding: &str) -> String {
    browser.js(&format!(
        "const form = Object.assign(document.createElement('form'), {{ method: 'post', action: '{to}', enctype: '{coding}' }});
         for (const [name, value] of new URLSearchParams('{fields}')) form.append(Object.assign(document.createElement('input'), {{ name, value }}));
         document.body.append(form); form.submit(); return 1"
    ));
    browser.wait(
        "it has been answered",
        "return document.title !== 'elsewhere' && document.readyState === 'complete'",
    );
    browser.text("return document.body.innerText")
}

#[test]
fn page_of_another_origin_neither_orders_nor_reads_anything_with_the_session_of_a_reader() {
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["--retries", "0"]);
    let job = sandbox.put(&["false"]);
    wait_until("it has failed", || sandbox.state(&job) == "failed");
    let page = Served::start(&sandbox, &[]);
    browser.go_to(&page.url, "/");
    let (other, order) = (Elsewhere::start(), format!("act=discard&job={job}"));
    let (act, leave, shown) = (page.at("/act"), page.at("/leave"), page.at(&format!("/job/{job}")));
    // A port makes no other site: the browser sends the strict cookie along from the first, not from the second.
    for host in ["127.0.0.1", "localhost"] {
        let elsewhere = format!("http://{host}:{}/", other.port);
        browser.go(&elsewhere);
        let codings = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
        for (to, fields, coding) in
            codings.map(|coding| (&act, order.as_str(), coding)).into_iter().chain([(&leave, "", codings[0])])
        {
            let said = sent_by_form(&browser, to, fields, coding);
            assert!(said.contains("another page has sent this"), "{host} {to} {coding}: {said}");
            browser.go(&elsewhere);
        }
        // Each gives what it could learn.
        let learned = browser.js_later(&format!(
            "const done = arguments[arguments.length - 1], learned = [];
             const post = {{ method: 'POST', credentials: 'include', body: new URLSearchParams('{order}') }};
             const read = (url, more) => fetch(url, {{ credentials: 'include', ...more }}).then((answer) => answer.text()).then((text) => learned.push(text), () => 0);
             const load = (kind, url) => new Promise((end) => {{
               const one = document.createElement(kind);
               one.onload = () => {{ learned.push(kind); end(); }}; one.onerror = end; one.src = url; document.body.append(one);
             }});
             const listen = new Promise((end) => {{
               const stream = new EventSource('{live}', {{ withCredentials: true }});
               stream.onopen = () => {{ learned.push('live'); stream.close(); end(); }}; stream.onerror = () => {{ stream.close(); end(); }};
             }});
             navigator.sendBeacon('{act}', new URLSearchParams('{order}'));
             Promise.all([read('{shown}'), read('{act}', post), read('{act}', {{ ...post, headers: {{ 'tv-fragment': '1' }} }}),
               fetch('{act}', {{ ...post, mode: 'no-cors' }}).catch(() => 0), load('img', '{shown}'), load('script', '{shown}'), listen])
               .then(() => done(learned), (error) => done([String(error)]));",
            live = page.at("/live"),
        ));
        assert_eq!(learned, serde_json::json!([]), "{host}");
        // A question in a frame could be laid under a button of theirs.
        browser.complaints();
        browser.js(&format!(
            "document.body.append(Object.assign(document.createElement('iframe'), {{ src: '{act}?{order}' }})); return 1"
        ));
        wait_until("the browser refuses the frame", || {
            browser.complaints().iter().any(|said| said.contains("frame-ancestors"))
        });
        assert_eq!(sandbox.state(&job), "failed", "{host}");
    }
    assert!(
        other.heard.lock().unwrap().contains(&format!("taskvisor-{}=", page.port)),
        "the cookie was there"
    );

    // The session goes on, and what nobody else could send its own page does.
    browser.go(&shown);
    assert!(browser.text("return document.body.innerText").contains("Sign out"));
    let code = browser.js_later(&format!(
        "const done = arguments[arguments.length - 1];
         fetch('{act}', {{ method: 'POST', body: new URLSearchParams('{order}') }}).then((answer) => done(answer.status));"
    ));
    assert_eq!((code, sandbox.run(&["job", "show", &job]).status.success()), (200.into(), false));
}
