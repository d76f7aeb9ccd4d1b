//! `check` and `config show`.

use super::*;

#[test]
fn check_refuses_what_start_refuses_with_the_same_message_and_exit_code() {
    let sandbox = Sandbox::new(Setting::Root);
    for yaml in [
        "pools:\n- name: a\n  wokers: 2\n",
        "pools:\n- {name: a, command: nosuch}\n",
        "pools:\n- {name: a, user: nosuch}\n",
        "lease: 15s\n",
    ] {
        fs::write(sandbox.work("t.yaml"), yaml).unwrap();
        let (checked, started) =
            (sandbox.run(&["check", "-c", "t.yaml"]), sandbox.run(&["start", "-c", "t.yaml"]));
        assert_eq!((checked.status.code(), started.status.code()), (Some(78), Some(78)), "{yaml}");
        assert_eq!(text(&checked.stderr), text(&started.stderr));
    }
    assert!(!sandbox.path("state").exists(), "it makes nothing");
    fs::write(sandbox.path("state"), "").unwrap();
    for dir in ["../state/dir", "../state", "/proc/x"] {
        let said = ["check", "start"].map(|verb| {
            let refused = sandbox.run(&[verb, "--state-dir", dir]);
            (refused.status.code(), text(&refused.stderr).to_owned())
        });
        assert_eq!(said[0], said[1]);
        assert!(
            matches!(said[0].0, Some(74 | 77)) && said[0].1.contains("failed to make the directory"),
            "{said:?}"
        );
    }
    fs::remove_file(sandbox.path("state")).unwrap();
    fs::create_dir(sandbox.path("state")).unwrap();
    fs::set_permissions(sandbox.path("state"), fs::Permissions::from_mode(0o777)).unwrap();
    for verb in ["check", "start"] {
        let refused = sandbox.run(&[verb]);
        assert_eq!(refused.status.code(), Some(77));
        assert!(text(&refused.stderr).contains("can be written by others (mode 777)"));
    }
    let report = sandbox.run(&["check", "-c", "none.yaml", "--json"]);
    let report = (report.status.code(), serde_json::from_slice::<Value>(&report.stdout).unwrap());
    assert_eq!((report.0, report.1["verdict"].as_str()), (Some(78), Some("refused")));
    assert!(report.1["error"].as_str().unwrap().contains("failed to read none.yaml"));
}

#[test]
fn check_warns_of_contradictions_with_their_place_and_start_logs_them_once() {
    in_all_settings(|sandbox| {
        let yaml = "lease: 2m\npools:\n- name: mail\n  queues: [a, a]\n  grace: 40s\n";
        fs::write(sandbox.work("t.yaml"), yaml).unwrap();
        let warned = sandbox.ok(&["check", "-c", "t.yaml", "--stop-deadline", "30s"]);
        assert!(warned.contains("warning: t.yaml:5:3: pool 'mail': a grace of 40s"), "{warned}");
        assert!(warned.contains("[queue-twice]\nhint: name it once\n"), "{warned}");
        assert!(warned.ends_with("2 warnings\n"), "{warned}");
        assert_eq!(sandbox.ok(&["check", "-c", "t.yaml", "--grace", "3s", "-q", "a"]), "fine\n");
        assert_eq!(sandbox.run(&["check", "-c", "t.yaml", "--strict"]).status.code(), Some(1));
        let report = sandbox.json(&["check", "-c", "t.yaml", "--json", "--grace", "50s"]);
        let found = &report["findings"][0];
        assert_eq!(report["verdict"], "warnings");
        assert_eq!((&found["rule"], &found["place"]), (&"grace-beyond-stop".into(), &"--grace".into()));

        let mut running = sandbox.start(&["-c", "t.yaml"]);
        let keeper = sandbox.one("tv-supervisor");
        sandbox::kill(keeper, "KILL");
        wait_until("another supervisor serves", || {
            let output = sandbox.run(&["status", "--json"]);
            serde_json::from_slice::<Value>(&output.stdout)
                .is_ok_and(|status| status["supervisor_restarts"] == 1)
        });
        sandbox.ok(&["stop", "--kill"]);
        running.wait();
        assert_eq!(sandbox.stderr().matches("grace-beyond-stop").count(), 1, "{}", sandbox.stderr());
        sandbox.assert_nothing_left();
    });
}

#[test]
fn check_reports_who_may_read_and_write_files() {
    let sandbox = Sandbox::new(Setting::Root);
    let program = sandbox.script("worker", "#!/bin/sh\n");
    let yaml = format!(
        "pools:\n- name: a\n  command: [{program}]\n  user: daemon\n  env: {{set: {{API_KEY: x}}}}\n"
    );
    fs::write(sandbox.work("t.yaml"), yaml).unwrap();
    let rules = |modes: [u32; 3]| -> Vec<String> {
        for (name, mode) in ["t.yaml", "worker", ""].iter().zip(modes) {
            fs::set_permissions(sandbox.work(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let report = sandbox.json(&["check", "-c", "t.yaml", "--json"]);
        let found = report["findings"].as_array().unwrap().clone();
        found.iter().map(|found| found["rule"].as_str().unwrap().to_owned()).collect()
    };
    if !sandbox::is_root() {
        sandbox::missing("root");
        return;
    }
    assert_eq!(rules([0o600, 0o755, 0o755]), [""; 0]);
    assert_eq!(rules([0o644, 0o755, 0o755]), ["secret-readable"]);
    assert_eq!(rules([0o602, 0o755, 0o755]), ["config-open"]);
    assert_eq!(rules([0o600, 0o757, 0o755]), ["program-open"]);
    assert_eq!(rules([0o600, 0o750, 0o755]), ["program-closed"]);
    assert_eq!(rules([0o600, 0o755, 0o700]), ["program-closed"]);
    assert_eq!(rules([0o600, 0o755, 0o777]), ["config-open", "program-open"]);
}

#[test]
fn config_show_prints_settings_that_start_accepts() {
    let sandbox = Sandbox::new(Setting::Root);
    let yaml = "lease: 2m\nlog: {level: warn}\npools:\n- {name: a, workers: 2, umask: \"022\"}\n- name: b\n  run: cat\n  env: {set: {API_KEY: s3cret}}\n";
    fs::write(sandbox.work("t.yaml"), yaml).unwrap();
    let shown = sandbox.ok(&["config", "show", "-c", "t.yaml", "--secrets"]);
    for line in [
        "lease: 2m  # t.yaml:1:1",
        "state_dir: ",
        "# TASKVISOR_STATE_DIR",
        "grace: 10s  # default",
        "API_KEY: s3cret  # t.yaml:7:15",
    ] {
        assert!(shown.contains(line), "no {line:?} in\n{shown}");
    }
    fs::write(sandbox.work("again.yaml"), &shown).unwrap();
    let values = |file: &str| {
        let mut command = sandbox.command(&["config", "show", "-c", file, "--json", "--secrets"]);
        command.env_remove("TASKVISOR_STATE_DIR").env_remove("TASKVISOR_RUN_DIR");
        let mut shown: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let pools =
            shown["pools"].as_array_mut().unwrap().iter_mut().flat_map(|pool| pool.as_object_mut().unwrap());
        pools.for_each(|(_, setting)| drop(setting.as_object_mut().unwrap().remove("from")));
        shown
    };
    assert_eq!(values("again.yaml")["pools"], values("t.yaml")["pools"]);
    assert_eq!(
        values("again.yaml")["settings"]["state_dir"]["value"],
        sandbox.path("state").display().to_string()
    );
    let mut running = sandbox.start(&["-c", "again.yaml"]);
    sandbox.ok(&["stop", "--kill"]);
    running.wait();

    let hidden = sandbox.ok(&["config", "show", "b", "-c", "t.yaml"]);
    assert!(
        hidden.contains("API_KEY: null  # hidden; t.yaml:7:15") && !hidden.contains("s3cret"),
        "{hidden}"
    );
    assert!(hidden.contains("run: null  # hidden; t.yaml:6:3"), "{hidden}");
    assert!(!hidden.contains("name: a") && !hidden.contains("lease:"), "{hidden}");
    let none = sandbox.run(&["config", "show", "c", "-c", "t.yaml"]);
    assert_eq!(none.status.code(), Some(7));
    assert!(text(&none.stderr).contains("no pool has the name 'c'\nhint: the pools are a, b"));
}

#[test]
fn pool_has_its_time_of_day_size_at_start_and_after_reload() {
    let sandbox = Sandbox::new(Setting::Root);
    let yaml = |workers: u8| {
        let text = format!(
            "pools:\n- name: mail\n  workers: {{max: 1, at: {{\"* * * * *\": {workers}}}, zone: Europe/Vienna}}\n"
        );
        fs::write(sandbox.work("t.yaml"), text).unwrap();
    };
    let size = |place: &Value| {
        let pool = &place["pools"][0];
        (pool["slots"].as_array().unwrap().len(), pool["time_of_day"]["workers"].as_u64())
    };
    yaml(3);
    let checked = sandbox.ok(&["check", "-c", "t.yaml"]);
    assert!(checked.starts_with("pool 'mail': 3 workers now, 3 from "), "{checked}");
    let mut running = sandbox.start(&["-c", "t.yaml"]);
    assert_eq!(size(&sandbox.json(&["status", "--json"])), (3, Some(3)));
    yaml(2);
    sandbox.ok(&["reload", "--wait"]);
    assert_eq!(size(&sandbox.json(&["status", "--json"])), (2, Some(2)));
    let shown = sandbox.ok(&["status"]);
    assert!(shown.contains("  2 workers from "), "{shown}");
    sandbox.ok(&["stop"]);
    running.wait();

    let at_night = "pools:\n- {name: a, workers: {max: 1, at: {\"0 25 * * *\": 2}}}\n";
    fs::write(sandbox.work("t.yaml"), at_night).unwrap();
    let refused = sandbox.run(&["check", "-c", "t.yaml"]);
    assert!(text(&refused.stderr).contains("'0 25 * * *' is no cron line"), "{}", text(&refused.stderr));
    fs::write(sandbox.work("t.yaml"), at_night.replace("0 25", "0 5").replace(": 2}}", ": 0}}")).unwrap();
    assert!(text(&sandbox.run(&["check", "-c", "t.yaml"]).stderr).contains("fewer than 1"));
}

#[test]
fn put_sends_a_routed_class_to_its_broker_with_and_without_a_supervisor() {
    let sandbox = Sandbox::new(Setting::Root);
    let other = format!("sqlite:{}", sandbox.path("other.db").display());
    let yaml = format!("route:\n- {{classes: [exec], to: '{other}'}}\n");
    fs::write(sandbox.work("t.yaml"), yaml).unwrap();
    let checked = sandbox.ok(&["check", "-c", "t.yaml"]);
    assert!(checked.starts_with(&format!("100 % of new jobs of exec go to {other}\n")), "{checked}");
    let there = |id: &str| {
        let shown = sandbox.run(&["--broker", &other, "job", "show", id.trim(), "--json"]);
        serde_json::from_slice::<Value>(&shown.stdout).map_or(Value::Null, |job| job["state"].clone())
    };
    let before = sandbox.ok(&["-c", "t.yaml", "put", "--", "true"]);
    assert_eq!(there(&before), "waiting");
    let mut running = sandbox.start(&["-c", "t.yaml"]);
    let during = sandbox.ok(&["put", "--", "true"]);
    assert_eq!(there(&during), "waiting");
    let mail = sandbox.ok(&["put", "default", "mail.Send", "{}"]);
    assert_eq!((sandbox.state(mail.trim()).is_empty(), there(&mail)), (false, Value::Null));
    sandbox.ok(&["stop"]);
    running.wait();
    for (wrong, word) in [
        ("{classes: [a], to: 'memory:'}", "nobody reaches"),
        ("{classes: [a], to: 'sqlite:/etc/passwd'}", "/etc/passwd"),
        ("{classes: [], to: 'sqlite:/x'}", "names no class"),
        ("{classes: [a], percent: 0, to: 'sqlite:/x'}", "from 1 to 100"),
        ("{classes: [a], to: 'nosuch://x'}", "no broker speaks"),
    ] {
        fs::write(sandbox.work("t.yaml"), format!("route:\n- {wrong}\n")).unwrap();
        let refused = sandbox.run(&["check", "-c", "t.yaml"]);
        assert!(text(&refused.stderr).contains(word), "{}", text(&refused.stderr));
    }
}
