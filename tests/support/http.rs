//! Questions to a supervisor's API, past its own client.

use std::process::Command;

use crate::sandbox::Sandbox;

/// The body of the answer to `GET path`.
pub fn get(sandbox: &Sandbox, path: &str) -> String {
    let socket = sandbox.path("run").join("ctl.sock");
    let mut curl = Command::new("curl");
    curl.args(["-s", "--unix-socket"]).arg(&socket).arg(format!("http://taskvisor{path}"));
    String::from_utf8(curl.output().expect("curl").stdout).expect("text")
}
