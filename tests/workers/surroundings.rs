//! The environment of workers: directory, umask, variables, user; and what jobs leave behind.

use super::*;

#[test]
fn each_job_finds_an_empty_directory_in_every_kind_of_sandboxed_pool() {
    let sandbox = python::new();
    let look = sandbox.script("look", "#!/bin/sh\nls -A\npwd\necho x > left\n");
    let text = format!(
        "pools:
  - {{name: programs, queues: [programs], sandbox: true}}
  - {{name: run, queues: [run], sandbox: true, run: {look}}}
  - {{name: forked, mode: fork, queues: [forked], sandbox: true, PYTHON app}}"
    );
    let _running = start_file(&sandbox, &text);
    let state = sandbox.path("state").display().to_string();
    for _ in 0..3 {
        let jids = [
            sandbox.ok(&["put", "-q", "programs", "--", &look]),
            put_into(&sandbox, "run", "any"),
            put_into(&sandbox, "forked", "surroundings"),
        ];
        let [programs, run, forked] = jids.map(|jid| ended(&sandbox, jid.trim()));
        for job in [programs, run] {
            assert_eq!(job["state"], "complete", "{job}");
            let log = log(&sandbox, &job);
            assert!(log.lines().count() == 1 && log.starts_with(&state), "{log}");
        }
        let seen = result(&forked);
        assert!(seen["cwd"].as_str().unwrap().starts_with(&state), "{seen}");
        assert_eq!(seen["found"], json!([]), "{seen}");
    }
}

/// Leftovers would change the next job or be charged to it.
#[test]
fn prefork_job_leaves_no_directory_umask_or_handler_and_its_threads_are_reported() {
    let sandbox = python::new();
    let _running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    let before = result(&run(&sandbox, "process", "null"));
    for _ in 0..2 {
        let littered = run(&sandbox, "changes", "null");
        assert_eq!(littered["forensics"]["left"], json!(["thread beat"]), "{littered}");
        let next = run(&sandbox, "process", "null");
        assert_eq!(result(&next), before, "{next}");
        assert_eq!(next["forensics"]["left"], json!(null), "told once: {next}");
    }
}

/// Its print would fail at a full pipe, and the timer would kill it.
#[test]
fn prefork_job_leaves_no_timer_and_no_output_that_does_not_block() {
    let sandbox = python::new();
    let _running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    for _ in 0..2 {
        let left = run(&sandbox, "changes_more", "null");
        let named = "O_NONBLOCK of descriptor 1, a timer (ITIMER_PROF)\n";
        assert!(log(&sandbox, &left).ends_with(named), "{left}");
        let next = run(&sandbox, "prints", "[1000000]");
        assert_eq!(next["state"], "complete", "{next}");
        assert_eq!(log(&sandbox, &next).len(), 1_000_001, "{next}");
    }
}

#[test]
fn workers_have_only_the_umask_directory_and_variables_of_their_pool() {
    let sandbox = python::new();
    fs::create_dir(sandbox.work("there")).unwrap();
    let text = "pools: [{mode: fork, umask: '027', cwd: there, PYTHON app}]";
    let path = python::file(&sandbox, text);
    let _running = sandbox.start_with(&["-c", &path, "--env", "WANTED_*"], |command| {
        command.env("WANTED_A", "1").env("SECRET_TOKEN", "x");
    });
    wait_until("it listens", || sandbox.status().is_object());
    let seen = result(&run(&sandbox, "surroundings", "null"));
    assert_eq!(seen["mode"], 0o750);
    assert_eq!(seen["cwd"], sandbox.work("there").display().to_string());
    assert_eq!((&seen["env"]["WANTED_A"], &seen["env"]["SECRET_TOKEN"]), (&json!("1"), &Value::Null));
    assert!(sandbox.work("there/made").exists());
}

#[test]
fn workers_run_as_the_user_and_group_of_their_pool() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = python::new();
    let waits = sandbox.script(
        "waits",
        "#!/bin/sh\necho \"$HOME $USER $LOGNAME\"\nwhile [ ! -e \"$1/go\" ]; do sleep 0.02; done\n",
    );
    let text = format!(
        "pools:
  - {{name: user, queues: [user], user: nobody}}
  - {{name: both, queues: [both], user: nobody, group: daemon, run: [{waits}, {dir}]}}",
        dir = sandbox.path("work").display()
    );
    let _running = start_file(&sandbox, &text);
    let jids = [
        sandbox.ok(&["put", "-q", "user", "--", &waits, sandbox.path("work").to_str().unwrap()]),
        put_into(&sandbox, "both", "any"),
    ];
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let daemon = nix::unistd::Group::from_name("daemon").unwrap().unwrap();
    for (name, gid) in [("user", nobody.gid), ("both", daemon.gid)] {
        let mut pid = 0;
        wait_until("the job runs", || {
            let slot = pool(&sandbox, name)["slots"][0].clone();
            let runs = slot["state"] == "busy" && slot["process"]["name"] == "waits";
            pid = if runs { pid_of(&slot["process"]) } else { 0 };
            runs
        });
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let ids = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(ids("Uid:"), vec![nobody.uid.to_string(); 4]);
        assert_eq!(ids("Gid:"), vec![gid.to_string(); 4]);
        assert!(!ids("Groups:").contains(&"0".to_owned()), "{status}");
    }
    touch(&sandbox, "go");
    for jid in jids {
        let job = ended(&sandbox, jid.trim());
        assert_eq!(job["state"], "complete", "{job}");
        assert_eq!(log(&sandbox, &job), format!("{} nobody nobody\n", nobody.dir.display()));
    }
}

/// A worker that runs one job after the other, each in its directory, and needs no file that only root may read.
const PLAIN_WORKER: &str = r#"#!/bin/bash
echo '{"hello":{"protocol":1,"sdk":"bash"}}
{"ready":{}}' >&3
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$frame"; }
while IFS= read -r frame <&3; do
    [ -n "$(field cwd)" ] || continue
    cd "$(field cwd)" && echo "$(id -u) $(pwd) $(ls -A)" && touch made || exit 1
    echo "{\"done\":{\"job\":\"$(field id)\",\"fence\":$(field fence),\"outcome\":\"complete\"}}" >&3
done
"#;

#[test]
fn workers_of_another_user_can_enter_the_sandbox_of_each_job() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = python::new();
    let worker = sandbox.script("worker", PLAIN_WORKER);
    let text = format!("pools: [{{sandbox: true, user: nobody, retries: 0, command: {worker}}}]");
    let _running = start_file(&sandbox, &text);
    let uid = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid;
    let dir = sandbox.path("state").join("sandbox");
    for _ in 0..2 {
        let job = run(&sandbox, "any", "null");
        assert_eq!(job["state"], "complete", "{job}");
        let printed = log(&sandbox, &job);
        let begin = format!("{uid} {}/default-1.", dir.display());
        let life = printed.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(" \n"));
        assert!(life.is_some_and(|life| life.parse::<u32>().is_ok()), "{printed}");
    }
    // Workers cannot read the rest of the state directory.
    assert_eq!(sandbox::mode(&sandbox.path("state")), 0o711);
    for name in fs::read_dir(sandbox.path("state")).unwrap().flatten() {
        let mode = sandbox::mode(&name.path());
        assert!(name.file_name() == "sandbox" || mode & 0o077 == 0, "{name:?} {mode:o}");
    }
}

#[test]
fn job_that_outlasts_a_recycle_keeps_its_sandbox() {
    let sandbox = python::new();
    let _running = sandbox.start(&["-w", "1", "--sandbox"]);
    let go = sandbox.work("go");
    let (began, until) = (sandbox.work("began"), go.display());
    let script =
        format!("touch made; : > {}; until [ -e {until} ]; do sleep 0.05; done; ls $(pwd)", began.display());
    let old = sandbox.ok(&["put", "--", "sh", "-c", &script]).trim().to_owned();
    wait_until("it has begun", || began.exists());
    sandbox.ok(&["recycle"]);
    let new = sandbox.ok(&["put", "--", "true"]).trim().to_owned();
    sandbox.ok(&["job", "wait", &new]);
    fs::write(&go, "").unwrap();
    sandbox.ok(&["job", "wait", &old]);
    assert_eq!(sandbox.ok(&["job", "logs", &old]), "made\n");
}

#[test]
fn orphans_of_a_forked_job_are_killed_and_counted() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "app", &["-w", "1"]);
    let job = run(&sandbox, "litters", "null");
    assert_eq!(
        (&job["state"], &job["forensics"]["exit"]["left_behind"]),
        (&json!("complete"), &json!(1)),
        "{job}"
    );
    assert!(sandbox.ok(&["job", "show", job["id"].as_str().unwrap()]).contains("1 process, killed"));
}

#[test]
fn prefork_job_is_charged_only_its_own_cpu_time() {
    let sandbox = python::new();
    let _running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    let took = |job: &Value| job["forensics"]["cpu"].as_f64().unwrap();
    for _ in 0..2 {
        let spun = run(&sandbox, "spins", "null");
        assert!(took(&spun) > result(&spun).as_f64().unwrap(), "with that of its child: {spun}");
        let next = run(&sandbox, "process", "null");
        assert!(took(&next) < 0.2, "without that of the last one: {next}");
    }
    let stats: Value =
        serde_json::from_str(&sandbox.ok(&["job", "stats", "--class", "spins", "--json"])).unwrap();
    let of_day = stats.as_array().map_or(&stats, |days| &days[0]);
    assert_eq!(of_day["measured"], 2, "{stats}");
    assert!(of_day["cpu"].as_f64().unwrap() > 0.4, "{stats}");
}
