//! One script of checks, with Amazon's client, for the fake and for moto.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use super::sandbox::missing;
use super::sqs::FakeSqs;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sqs");

/// moto and Amazon's client for Python, installed once below target/.
fn venv() -> Option<String> {
    let output = Command::new("sh")
        .args([&format!("{HERE}/venv"), concat!(env!("CARGO_MANIFEST_DIR"), "/target/moto")])
        .output()
        .expect("a shell");
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        missing("moto (python3, PyPI)");
        return None;
    }
    Some(String::from_utf8(output.stdout).expect("a path").trim().to_owned())
}

fn check(venv: &str, arguments: &[&str]) {
    let output = Command::new(format!("{venv}/bin/python"))
        .arg(format!("{HERE}/checks.py"))
        .args(arguments)
        .output()
        .expect("the checks");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" checks, 0 failed"), "{said}");
}

/// A running moto.
pub struct Moto {
    pub endpoint: String,
    venv: String,
    child: Child,
    /// moto logs each call: a full pipe would block it.
    reader: Option<JoinHandle<usize>>,
}

impl Moto {
    /// None = it is not to be had.
    pub fn start() -> Option<Moto> {
        let venv = venv()?;
        let mut child = Command::new(format!("{venv}/bin/moto_server"))
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = said
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains("Running on"))
            .expect("moto starts");
        let endpoint = line.split_whitespace().last().expect("an address").to_owned();
        let reader = Some(std::thread::spawn(move || said.count()));
        Some(Moto { endpoint, venv, child, reader })
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it reads to the end");
        }
    }
}

#[test]
fn the_fake_passes_the_checks() {
    let Some(venv) = venv() else { return };
    check(&venv, &[&FakeSqs::start().endpoint()]);
}

#[test]
fn moto_passes_the_checks() {
    let Some(moto) = Moto::start() else { return };
    check(&moto.venv, &[&moto.endpoint, "--moto"]);
}
