//! The page of the settings in force.

use std::fs;

use serde_json::Value;

use crate::http::get;
use crate::page::{Served, status};
use crate::sandbox::{Sandbox, Setting};

const YAML: &str = "lease: 2m\npools:\n- name: mail\n  workers: 2\n  grace: 7s\n- name: app\n  run: cat --password canary\n  env: {set: {API_KEY: canary}}\n";

/// What the row of a setting says, without tags.
fn row(page: &str, name: &str) -> String {
    let start = page.find(&format!("data-key=\"{name}\"")).unwrap_or_else(|| panic!("no {name}: {page}"));
    let row = &page[start..];
    let row = &row[..row.find("</tr>").unwrap()];
    row.split('<').skip(1).filter_map(|part| part.split_once('>').map(|(_, text)| text)).collect()
}

#[test]
fn config_page_shows_the_settings_in_force_and_no_secret() {
    let sandbox = Sandbox::new(Setting::Root);
    fs::write(sandbox.work("t.yaml"), YAML).unwrap();
    let store = format!("sqlite:{}", sandbox.path("jobs.db").display());
    let _running = sandbox.start(&["-c", "t.yaml", "--log-level", "warn", "-b", &store]);
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let ask = |path: &str| page.ask("GET", path, &[&cookie], "");
    let shown = ask("/config");
    assert_eq!(status(&shown), 200, "{shown}");
    for (name, said) in [
        ("lease", "lease2mt.yaml:1:1"),
        ("grace", "grace7st.yaml:5:3"),
        ("log.level", "log.levelwarn--log-level"),
        ("env.set.API_KEY", "env.set.API_KEYhiddent.yaml:8:15"),
        ("run", "runhiddent.yaml:7:3"),
    ] {
        assert_eq!(row(&shown, name), said);
    }
    assert_eq!(row(&shown, "broker"), format!("broker{store}--broker"));
    assert!(!shown.contains("data-key=\"stop_deadline\""), "{shown}");
    assert!(shown.contains("taskvisor config show -c t.yaml"), "{shown}");
    let all = ask("/config?show=all");
    assert_eq!(row(&all, "stop_deadline"), "stop_deadline25sdefault");
    assert!(!shown.contains("canary") && !all.contains("canary"), "{all}");

    // What a file says counts with its reload, and until then what was read from it.
    fs::write(sandbox.work("t.yaml"), YAML.replace("grace: 7s", "grace: 8s")).unwrap();
    assert_eq!(row(&ask("/config"), "grace"), "grace7st.yaml:5:3");
    sandbox.ok(&["reload"]);
    assert_eq!(row(&ask("/config"), "grace"), "grace8st.yaml:5:3");
}

#[test]
fn settings_by_the_api_are_those_of_config_show() {
    let sandbox = Sandbox::new(Setting::Root);
    fs::write(sandbox.work("t.yaml"), YAML).unwrap();
    let _running = sandbox.start(&["-c", "t.yaml"]);
    let said: Value = serde_json::from_str(&get(&sandbox, "/v1/config")).unwrap();
    assert_eq!(said, sandbox.json(&["config", "show", "-c", "t.yaml", "--json"]));
    assert!(!said.to_string().contains("canary"), "{said}");
}
