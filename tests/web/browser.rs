//! A real Chromium, by WebDriver over HTTP.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{is_root, missing, pids, wait_until};

/// A browser with one window; it ends with this value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one. Without a Chromium the test is skipped.
    pub fn open() -> Option<Browser> {
        for program in ["chromium", "chromedriver"] {
            if Command::new(program)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_err()
            {
                missing(program);
                return None;
            }
        }
        let (driver, port) = driver();
        let mut browser = Browser { driver, port, session: String::new() };
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
        ];
        let asked = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args }, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = browser.call("POST", "/session", &asked);
        browser.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.try_call(method, path, body).unwrap();
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let body = if method == "GET" { String::new() } else { body.to_string() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut answer: Value = serde_json::from_slice(&body_of(stream)?)?;
        Ok(answer["value"].take())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// Opens an address.
    pub fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Opens an address and waits until it has led to the page of this path.
    pub fn go_to(&self, url: &str, path: &str) {
        self.go(url);
        self.wait(
            &format!("{path} is shown"),
            &format!("return location.pathname === '{path}' && document.readyState === 'complete'"),
        );
    }

    /// Runs a script and gives its result.
    pub fn js(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The same as text.
    pub fn text(&self, script: &str) -> String {
        self.js(script).as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script that calls its last argument when it is done.
    pub fn js_later(&self, script: &str) -> Value {
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script gives true.
    pub fn wait(&self, what: &str, script: &str) {
        wait_until(what, || self.js(script) == json!(true));
    }

    /// Types keys into what has the focus.
    pub fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// Presses a key while another one is held down.
    pub fn chord(&self, held: &str, key: &str) {
        let actions = [("keyDown", held), ("keyDown", key), ("keyUp", key), ("keyUp", held)]
            .map(|(kind, value)| json!({ "type": kind, "value": value }));
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// What a selector of CSS finds first, for `/element/…`.
    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|found| found.values().next()?.as_str());
        format!("/element/{}", id.unwrap_or_else(|| panic!("{selector}: {found}")))
    }

    /// Clicks on what a selector finds first, as the mouse does.
    pub fn click(&self, selector: &str) {
        // A reader scrolls until nothing lies over it.
        self.js(&format!(
            "document.querySelector(`{selector}`).scrollIntoView({{ block: 'center' }}); return 1"
        ));
        self.post(&format!("{}/click", self.element(selector)), &json!({}));
    }

    /// Puts a text into a field, in place of what is there.
    pub fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("{element}/clear"), &json!({}));
        self.post(&format!("{element}/value"), &json!({ "text": text }));
    }

    /// Runs no script of any page from now on, or again.
    pub fn scripts(&self, run: bool) {
        // A script that is cut off in its work would be told as an error.
        self.go("about:blank");
        self.cdp("Emulation.setScriptExecutionDisabled", &json!({ "value": !run }));
    }

    /// Calls the browser's own protocol.
    pub fn cdp(&self, cmd: &str, params: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": cmd, "params": params }))
    }

    /// Sets the width of the page, and its colours: `light`, `dark` or `forced`.
    pub fn look(&self, width: u32, colors: &str) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.cdp("Emulation.setDeviceMetricsOverride", &size);
        let (scheme, forced) = if colors == "forced" { ("dark", "active") } else { (colors, "none") };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme }, { "name": "forced-colors", "value": forced },
            // A color is not to be looked at halfway to another one.
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.cdp("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Opens one tab more and goes there.
    pub fn tab(&self) -> String {
        let made = self.post("/window/new", &json!({ "type": "tab" }));
        let handle = made["handle"].as_str().unwrap().to_owned();
        self.go_to_tab(&handle);
        handle
    }

    /// Goes to a tab.
    pub fn go_to_tab(&self, handle: &str) {
        self.post("/window", &json!({ "handle": handle }));
    }

    /// What the browser complained of since the last call: errors, and breaches of the policy.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        log.as_array().unwrap().iter().map(Value::to_string).collect()
    }
}

/// Starts a driver; gives it with its port. It asks for a free port and binds it later by itself, so another one may
/// take it in between: they begin one after the other, across processes.
fn driver() -> (Child, u16) {
    let turn = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chromedriver.lock");
    let turn = File::options().create(true).append(true).open(turn).unwrap();
    turn.lock().unwrap();
    // A test that is killed runs no destructor. The kernel ends `unshare` with the test and the driver with `unshare`,
    // and with the first process of a namespace all others in it: the browser starts ten that know nothing of the driver.
    let mut apart = Command::new("setpriv");
    apart.args(["--pdeathsig", "KILL", "unshare", "--pid", "--mount-proc", "--fork", "--kill-child=KILL"]);
    if !is_root() {
        apart.arg("--map-root-user");
    }
    let mut driver = apart
        .args(["chromedriver", "--port=0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(driver.stdout.take().unwrap());
    let (mut line, mut all) = (String::new(), String::new());
    let port = loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "chromedriver has ended: {all}");
        all += &line;
        if let Some((_, port)) = line.trim_end().trim_end_matches('.').rsplit_once("successfully on port ") {
            break port.parse().unwrap();
        }
    };
    // It goes on to talk, and waits where nobody reads.
    std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
    (driver, port)
}

/// The body of an answer, whose connection may stay open.
fn body_of(stream: TcpStream) -> io::Result<Vec<u8>> {
    let (mut reader, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some((_, number)) = line.to_ascii_lowercase().split_once("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        // So that the driver ends the browser.
        if !self.session.is_empty() {
            self.try_call("DELETE", &self.session, &Value::Null).ok();
        }
        self.driver.kill().ok();
        self.driver.wait().ok();
    }
}

#[test]
fn browser_of_a_test_that_is_killed_ends_with_it() {
    let space = |pid: u32, of: &str| std::fs::read_link(format!("/proc/{pid}/ns/{of}")).ok();
    let count = move |inside: &PathBuf| {
        pids().filter(|pid| space(*pid as u32, "pid").as_ref() == Some(inside)).count()
    };
    // For the kernel the thread that starts a process is its parent: the end of a test is that of its thread.
    let opened = std::thread::spawn(move || {
        let browser = Browser::open()?;
        let inside = space(browser.driver.id(), "pid_for_children")?;
        assert!(count(&inside) > 3, "the driver and the processes of the browser");
        // No destructor runs.
        std::mem::forget(browser);
        Some(inside)
    });
    let Some(inside) = opened.join().unwrap() else { return };
    wait_until("driver and browser have ended", || count(&inside) == 0);
}
