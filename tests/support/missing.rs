//! Tests that need something this machine lacks.

use std::{env, fs, thread};

/// Reports that the calling test is skipped because this machine lacks `what`. `tests/run` lists these at its end.
///
/// Under CI (`CI` is set) it fails the test instead: there everything must be tested. `TASKVISOR_MAY_LACK` lists, with
/// commas, what even that machine may lack.
#[track_caller]
pub fn missing(what: &str) {
    let may_lack = env::var("TASKVISOR_MAY_LACK").unwrap_or_default();
    let may = env::var_os("CI").is_none() || may_lack.split(',').any(|name| name.trim() == what);
    assert!(may, "this machine lacks: {what}. Under CI no test is skipped for it");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    println!("SKIPPED {test}: no {what}");
    let notes = concat!(env!("CARGO_TARGET_TMPDIR"), "/skipped");
    fs::create_dir_all(notes).expect("a directory for notes");
    fs::write(format!("{notes}/{test}: no {what}").replace("::", "."), "").expect("a note");
}
