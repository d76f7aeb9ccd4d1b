//! Settings are shown as they can be started again, with their origin.

use std::collections::BTreeMap;

use crate::show;
use crate::{Config, Flags, Origins, Surroundings, resolve};

const DEFAULTS: &str = include_str!("../../../conf/taskvisor.yaml");

fn shown(text: &str, secrets: bool) -> (Config, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.yaml");
    std::fs::write(&path, text).unwrap();
    let config = read(&path);
    let origins = Origins::read(Some(&path), BTreeMap::new()).unwrap();
    let yaml = show(&config, &origins, secrets).to_yaml();
    (config, yaml.replace(&format!("{}/", dir.path().display()), ""))
}

fn read(path: &std::path::Path) -> Config {
    let around = Surroundings { uid: 7, home: Some("/home/u".into()), ..Surroundings::default() };
    resolve(Flags { config: Some(path.to_path_buf()), ..Flags::default() }, &around).unwrap()
}

/// Asserts that the shown settings parse to the same settings and are shown identically again.
#[track_caller]
fn comes_back(text: &str) {
    let (config, yaml) = shown(text, true);
    let (again, _) = shown(&yaml, true);
    // Where it is said is no part of what is meant: all that is shown is said.
    let meant = |config: Config| Config { file: None, broker_is_said: true, ..config };
    assert_eq!(meant(again), meant(config), "{yaml}");
}

#[test]
fn shown_settings_can_be_started() {
    comes_back("lease: null\n");
    comes_back(DEFAULTS);
    comes_back("route:\n- {classes: [mail.*, 'a b'], percent: 10, to: 'redis://h:1/0'}\n");
    let (_, example) = DEFAULTS.split_once("\n# pools:\n").expect("an example");
    let lines: Vec<&str> = example.lines().map(|line| line.trim_start_matches('#')).collect();
    comes_back(&format!("pools:\n{}", lines.join("\n")));
    comes_back(
        "lease: 2m\nlog: {level: warn}\npools:\n- {name: '- a #b', workers: {min: 2, max: 8}, umask: \"022\", run: \"x 'a: b' '' '{c' '\\u00e9\\t\\u007f'\"}\n- {name: 'null', queues: ['1', 'yes', '*', 'q:'], env: {set: {A: '1.10', A.B-c: ' x', TOKEN: 'a\\nb'}}}\n",
    );
}

#[test]
fn each_value_is_shown_with_its_origin() {
    let text = "lease: 2m\npools:\n- name: a\n  command: sh -c x\n  env: {set: {TOKEN: s3cret, LANG: C}}\n";
    let (_, yaml) = shown(text, false);
    for line in [
        "lease: 2m  # t.yaml:1:1\n",
        "stop_deadline: 25s  # default\n",
        "log:\n  format: auto  # default\n",
        "  - name: a  # t.yaml:3:3\n",
        "    mode: prefork  # default\n",
        "    command: null  # hidden; t.yaml:4:3\n",
        "    retries: 5  # default\n",
        "      set:\n        TOKEN: null  # hidden; t.yaml:5:15\n        LANG: null  # hidden; t.yaml:5:30\n",
        "    run: null  # default\n",
    ] {
        assert!(yaml.contains(line), "no {line:?} in\n{yaml}");
    }
    assert!(!yaml.contains("s3cret"));
    assert!(shown(text, true).1.contains("TOKEN: s3cret  # "));
    let run = "pools:\n- name: a\n  run: send --password s3cret\n";
    let yaml = shown(run, false).1;
    assert!(yaml.contains("    run: null  # hidden; t.yaml:3:3\n") && !yaml.contains("s3cret"), "{yaml}");
    assert!(shown(run, true).1.contains("    run: [send, --password, s3cret]  # "));
}

#[test]
fn nested_setting_is_shown_with_its_own_place() {
    let text = "log:\n  rotate: {keep: 3}\npools:\n- env: {set: {grace: x}}\n  class_limits: {mail.Send: {time: 1s}}\n  limits: {cpu: 1s,\n    time: 5s}\n  grace: 9s\n";
    let (_, yaml) = shown(text, true);
    for line in [
        "    size: 50MiB  # default\n    keep: 3  # t.yaml:2:12\n",
        "        grace: x  # t.yaml:4:15\n",
        "        time: 1s  # t.yaml:5:30\n",
        "      time: 5s  # t.yaml:7:5\n      soft_time: null  # default\n",
        "    grace: 9s  # t.yaml:8:3\n",
    ] {
        assert!(yaml.contains(line), "no {line:?} in\n{yaml}");
    }
}

#[test]
fn value_is_shown_in_one_spelling_however_it_was_written() {
    let text = |keep, memory| {
        format!("log: {{keep: {keep}}}\npools:\n- {{command: x, recycle: {{memory: {memory}}}}}\n")
    };
    let (_, yaml) = shown(&text("24h", "1024KiB"), true);
    assert!(yaml.contains("  keep: 1d  # t.yaml:1:7\n") && yaml.contains("      memory: 1MiB  # "), "{yaml}");
    let show_all = |text: &str| {
        let file = crate::File::parse(text, "t.yaml").unwrap();
        let flags = Flags { pool: file.pools.clone().unwrap().remove(0), whole: file, ..Flags::default() };
        show(&resolve(flags, &Surroundings::default()).unwrap(), &Origins::default(), true)
    };
    let same = show_all(&text("24h", "1024KiB")).differences(&show_all(&text("1d", "1MiB")));
    assert_eq!(same, []);
}

#[test]
fn single_pool_can_be_shown() {
    let (config, _) = shown("pools:\n- {name: a}\n- {name: b}\n", false);
    let only = |name| show(&config, &Origins::default(), false).only(name).map(|shown| shown.to_yaml());
    assert!(only("b").unwrap().starts_with("pools:\n  - name: b  # default\n"));
    assert!(only("c").is_none());
}
