//! The page behind nginx, below a path.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::browser::Browser;
use crate::page::{Served, put, status};
use crate::sandbox::{Sandbox, Setting, missing, wait_until};

/// A server that ends with this value.
struct Nginx(std::process::Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        // TERM, so that the workers end with their master.
        crate::sandbox::kill(self.0.id() as i32, "TERM");
        self.0.wait().ok();
    }
}

#[test]
fn page_below_a_path_works_behind_nginx() {
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        return missing("nginx");
    }
    let Some(browser) = Browser::open() else { return };
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["--retries", "0"]);
    let job = sandbox.put(&["false"]);
    wait_until("it has failed", || sandbox.state(&job) == "failed");
    let page = Served::start(&sandbox, &["--path", "/jobs", "--host", "jobs.example.org"]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dir = sandbox.path("nginx");
    fs::create_dir(&dir).unwrap();
    let at = dir.display();
    let text = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error; events {{}}
         http {{ access_log off; client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c;
           uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;
           server {{ listen 127.0.0.1:{port}; location /jobs {{
             proxy_pass http://127.0.0.1:{}; proxy_set_header Host $http_host; proxy_buffering off; }} }} }}",
        page.port
    );
    fs::write(dir.join("conf"), text).unwrap();
    let server = Command::new("nginx")
        .arg("-c")
        .arg(dir.join("conf"))
        .args(["-e", "stderr"])
        .stderr(Stdio::null())
        .spawn();
    let _server = Nginx(server.unwrap());
    wait_until("nginx listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());

    let (_, entered) = page.url.split_once("/enter").unwrap();
    assert!(page.url.contains("/jobs/enter"), "{}", page.url);
    browser.go(&format!("http://127.0.0.1:{port}/jobs/enter{entered}"));
    browser.wait(
        "it leads to the overview",
        "return location.pathname === '/jobs/' && !!document.querySelector('.tiles')",
    );
    browser.js("document.querySelector('.tile[data-tile=failed]').click(); return 1");
    browser.wait(
        "a link stays below the path",
        "return location.pathname === '/jobs/jobs' && !!document.querySelector('table.jobs')",
    );
    let next = put(&sandbox, "later", &["true"]);
    browser.go(&format!("http://127.0.0.1:{port}/jobs/jobs"));
    let last = put(&sandbox, "later", &["true"]);
    for job in [next, last] {
        browser.wait(
            "what happens comes through",
            &format!("return !!document.querySelector('tr[data-key=\"{job}\"]')"),
        );
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    only_our_path_and_names(&page);
}

fn only_our_path_and_names(page: &Served) {
    // The path with and without the slash at its end, other names, other paths.
    for (path, host, code) in [
        ("/jobs", "127.0.0.1", 401),
        ("/jobs/", "jobs.example.org", 401),
        ("/jobs/", "evil.example.org", 403),
        ("/jobsx", "127.0.0.1", 404),
        ("/", "127.0.0.1", 404),
    ] {
        assert_eq!(status(&page.ask("GET", path, &[&format!("host: {host}")], "")), code, "{path} at {host}");
    }
}
