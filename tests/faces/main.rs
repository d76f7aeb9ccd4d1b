//! The interfaces for people and machines: `check`, `config show`, metrics, health, the API.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

#[path = "../support/sandbox.rs"]
mod sandbox;

mod check;
mod group;
mod metrics;
mod monitoring;
mod roles;
mod spool;
mod statsd;
mod tcp;
mod unreached;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sandbox::{Sandbox, Setting, in_all_settings, wait_until};
use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// GETs a path over the socket; returns the status line and the body.
fn get(sandbox: &Sandbox, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(sandbox.path("run/ctl.sock")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}
