//! Jobs shared with a real client of qless and the script that it brings: reqless, from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::RedisServer;
use qless::script::SCRIPT;

/// The newest version that these tests were run with.
const REQLESS: &str = "reqless==0.13.3";

#[test]
fn jobs_are_shared_with_a_real_reqless_client() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let python = match python_with_reqless(scratch) {
        Ok(python) => python,
        Err(why) => {
            println!("{why}");
            return crate::sandbox::missing("reqless");
        }
    };
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().expect("a directory"));
    let script = dir.path().join("taskvisor.lua");
    fs::write(&script, SCRIPT).expect("the script");
    let story = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis/interop.py");
    let output = Command::new(python).arg(story).arg(server.url()).arg(&script).output().expect("Python");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("well: ").count(), 9);
}

/// A Python with reqless, installed once and then kept; or the reason why there is none.
fn python_with_reqless(scratch: &Path) -> Result<PathBuf, String> {
    let home = scratch.join("reqless");
    let python = home.join("bin/python");
    let imports = Command::new(&python).args(["-c", "import reqless"]).output();
    if imports.is_ok_and(|imports| imports.status.success()) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--timeout", "15", REQLESS]))?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
