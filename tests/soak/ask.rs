//! Questions to a supervisor's API, without a process for each.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// For how long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The answer to `GET path`, whatever its status; `None` without one.
pub fn get(sandbox: &Sandbox, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(sandbox.path("run/ctl.sock")).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: taskvisor\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// The same as JSON; null without an answer.
pub fn json(sandbox: &Sandbox, path: &str) -> Value {
    get(sandbox, path).and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default()
}
