//! What packages are made of agrees: versions, paths of units, lists of files, scripts. packaging/test builds on it.
#![allow(missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What stands between two texts.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} behind {before:?}")).0
}

fn files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, into) } else { into.push(path) }
    }
}

#[test]
fn all_packages_have_the_version_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(text("python/taskvisor/version.py").contains(&format!("VERSION = \"{version}\"")));
    assert!(text("python/pyproject.toml").contains(&format!("\nversion = \"{version}\"\n")));
    // maturin takes it from Cargo.toml.
    assert!(text("pyproject.toml").contains("\ndynamic = [\"version\"]\n"));
    let said = text("Cargo.toml");
    let rooms = between(&said, "[workspace.dependencies]", "# What others");
    for line in rooms.lines().filter(|line| line.contains("path = ")) {
        assert!(line.contains(&format!("version = \"{version}\"")), "{line}");
    }
    let changes = text("CHANGELOG.md");
    let first = changes.lines().find_map(|line| line.strip_prefix("## ")).expect("a section");
    assert!(first == "Unreleased" || first.starts_with(version), "the changelog begins with {first}");
}

#[test]
fn both_wheels_say_the_same_of_the_library() {
    let (whole, library) = (text("pyproject.toml"), text("python/pyproject.toml"));
    for (before, after) in
        [("requires-python = ", "\n"), ("keywords = ", "\n"), ("[project.entry-points", "\n\n")]
    {
        assert_eq!(between(&whole, before, after), between(&library, before, after), "{before}");
    }
    for line in between(&library, "classifiers = [", "]").lines() {
        assert!(whole.contains(line), "pyproject.toml lacks the classifier {line}");
    }
}

#[test]
fn units_name_the_program_where_packages_replace_it() {
    for unit in ["systemd/taskvisor.service", "systemd/taskvisor@.service"] {
        let unit = text(unit);
        let named: Vec<&str> = unit.lines().filter(|line| line.contains("bin/taskvisor")).collect();
        assert_eq!(named.len(), 2, "{named:?}");
        for line in named {
            assert!(line.starts_with("Exec") && line.contains("=/usr/local/bin/taskvisor "), "{line}");
        }
        assert!(unit.contains("\nUser=taskvisor\n"));
    }
    // The unit of the deb reads the settings of the deb instead.
    assert!(text("systemd/taskvisor.service").contains("\nExecStart=/usr/local/bin/taskvisor start -w 8\n"));
    assert_eq!(text("conf/taskvisor.yaml").matches("\n    workers: 1\n").count(), 1);
}

#[test]
fn scripts_end_at_the_first_error_and_can_be_read() {
    let mut found = Vec::new();
    files(&root().join("packaging"), &mut found);
    let mut scripts = 0;
    for path in found {
        let text = fs::read_to_string(&path).expect("text");
        let (shell, strict) = match text.lines().next() {
            Some("#!/bin/bash") => ("bash", "\nset -euo pipefail\n"),
            Some("#!/bin/sh") => ("sh", "\nset -e"),
            _ if path.ends_with("lib.sh") => ("bash", "\n"),
            Some(_) | None => continue,
        };
        scripts += 1;
        assert!(text.contains(strict), "{} goes on after an error", path.display());
        let checked = Command::new(shell).arg("-n").arg(&path).output().expect("a shell");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert!(path.ends_with("lib.sh") || mode & 0o111 == 0o111, "{} cannot be run", path.display());
    }
    assert!(scripts >= 13, "{scripts}");
}

#[test]
fn manifests_of_containers_probe_and_stop_as_the_program_does() {
    let manifest = text("examples/container/kubernetes.yaml");
    for needed in [
        "httpGet: {path: /livez, port: api}",
        "httpGet: {path: /readyz, port: api}",
        "preStop: {exec: {command: [taskvisor, stop]}}",
        "terminationGracePeriodSeconds: 40",
        "listen: \"0.0.0.0:9180\"",
        "containerPort: 9180",
        "readOnlyRootFilesystem: true",
        "capabilities: {drop: [ALL]}",
    ] {
        assert!(manifest.contains(needed), "the manifest lacks {needed}");
    }
    assert!(text("examples/container/compose.yaml").contains("stop_grace_period: 40s"));
    // 40 s are the stop deadline, the 10 s of the keeper, and some.
    assert!(text("conf/taskvisor.yaml").contains("\nstop_deadline: 25s\n"));
    for line in between(&manifest, "taskvisor.yaml: |\n", "---").lines() {
        assert!(line.is_empty() || line.starts_with("    "), "{line}");
    }
}
