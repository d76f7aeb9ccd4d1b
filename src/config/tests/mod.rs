//! The meaning of settings, and refused settings.

mod pages;
mod places;
mod show;

use std::path::Path;
use std::time::Duration;

use super::*;
use model::{
    Bytes, Class, ClassFilter, Leftovers, LogFormat, LogLevel, LogSettings, Order, PoolSettings, Recycle,
    Retry, Rotate, Settings, SpawnSpec, Work,
};

fn user() -> Surroundings {
    Surroundings { uid: 7, home: Some("/home/u".into()), ..Surroundings::default() }
}

/// The file is `t.yaml` in errors.
fn with_file(text: &str, flags: Flags) -> Result<Config, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.yaml");
    std::fs::write(&path, text).unwrap();
    resolve(Flags { config: Some(path), purpose: Purpose::Start, ..flags }, &user()).map_err(|mut error| {
        error.place = error.place.map(|place| place.rsplit('/').next().unwrap_or_default().to_owned());
        error
    })
}

/// The pool of a file with one pool in flow style.
fn pool(text: &str) -> (PoolSettings, SpawnSpec) {
    flagged(text, Pool::default())
}

fn flagged(text: &str, pool: Pool) -> (PoolSettings, SpawnSpec) {
    let mut config =
        with_file(&format!("pools:\n- {text}\n"), Flags { pool, ..Flags::default() }).expect("good settings");
    (config.settings.pools.remove(0), config.specs.remove(0))
}

fn words(words: &[&str]) -> Vec<Bytes> {
    words.iter().map(|word| (*word).into()).collect()
}

#[test]
fn nothing_set_means_the_defaults() {
    let config = resolve(Flags::default(), &user()).unwrap();
    assert_eq!(config.broker.to_string(), "sqlite:/home/u/.local/state/taskvisor/store.db");
    let pool = config.settings.pools[0].clone();
    let known: Vec<&str> = pool.knows.iter().flat_map(|known| known.keys()).map(Class::as_str).collect();
    assert_eq!(known, ["exec"]);
    assert_eq!(PoolSettings { knows: None, ..pool }, PoolSettings::default());
    assert_eq!(config.specs, [SpawnSpec::default()]);
    assert_eq!(config.settings.lease, Settings::default().lease);
}

#[test]
fn a_command_preforks_workers_that_live_on() {
    let (settings, spec) = pool("{workers: 8, command: [env, python3, -m, taskvisor.worker, app.tasks]}");
    assert_eq!((settings.workers, settings.template), (8, false));
    assert_eq!((settings.jobs_at_once, settings.jobs_per_life), (1, None));
    assert_eq!((settings.knows, settings.retry), (None, Retry::CLASS));
    assert_eq!(spec.work, Work::Command(words(&["env", "python3", "-m", "taskvisor.worker", "app.tasks"])));
    let (settings, _) = pool("{recycle: {jobs: 1000, age: 1h, idle: 30m, memory: 1GB}, command: sh}");
    let (jobs, age, idle) = (Some(1000), Some(Duration::from_secs(3600)), Some(Duration::from_secs(1800)));
    assert_eq!(settings.recycle, Recycle { jobs, age, idle, memory: Some(1_000_000_000) });
    assert_eq!((settings.jobs_at_once, settings.jobs_per_life), (1, None));
}

#[test]
fn a_command_in_mode_fork_is_a_template() {
    let (settings, _) = pool("{mode: fork, command: sh --all}");
    assert!(settings.template);
    assert_eq!((settings.jobs_at_once, settings.jobs_per_life), (1, Some(1)));
}

#[test]
fn a_command_in_mode_coroutine_runs_many_jobs_at_a_time() {
    let (settings, _) = pool("{mode: coroutine, command: sh}");
    assert_eq!((settings.jobs_at_once, settings.jobs_per_life, settings.template), (100, None, false));
    let (settings, _) = pool("{mode: coroutine, command: sh, concurrency: 7, recycle: {jobs: 9}}");
    assert_eq!((settings.jobs_at_once, settings.recycle.jobs), (7, Some(9)));
}

#[test]
fn run_is_a_program_for_each_job_of_any_class() {
    let (settings, spec) = pool("{run: \"true -q 'a b'\", retry_delay: 2s}");
    assert_eq!(spec.work, Work::Run(words(&["true", "-q", "a b"])));
    assert_eq!((settings.jobs_at_once, settings.jobs_per_life, settings.template), (1, Some(1), false));
    assert_eq!(
        (settings.knows, settings.retry),
        (None, Retry { delay: Duration::from_secs(2), ..Retry::NONE })
    );
}

#[test]
fn workers_may_come_and_go_within_limits() {
    let (settings, _) = pool("{workers: {min: 2, max: 8}}");
    assert_eq!((settings.min_workers, settings.workers), (Some(2), 8));
    let at = "{max: 4, at: {\"0 8 * * mon-fri\": 16, \"0 20 * * *\": 4}, zone: UTC}";
    let (settings, _) = pool(&format!("{{workers: {at}}}"));
    let sizes: Vec<_> = settings.sizes.iter().map(|rule| (rule.at.to_string(), rule.workers)).collect();
    assert_eq!(sizes, [("0 8 * * mon-fri".into(), 16), ("0 20 * * *".into(), 4)]);
    assert_eq!((settings.min_workers, settings.workers, settings.most_workers()), (None, 4, 16));
}

#[test]
fn a_pool_chooses_among_jobs() {
    let chosen = "{command: sh, order: round_robin, classes: [mail.*, sms], except_classes: [mail.Slow]}";
    let (settings, only) = (pool(chosen).0, vec!["mail.*".into(), "sms".into()]);
    assert_eq!(settings.order, Order::RoundRobin);
    assert_eq!(settings.filter, ClassFilter { only, except: vec!["mail.Slow".into()] });
    let settings = pool("{order: lottery, queues: [a, b], queue_priorities: {b: 9}, queue_turns: {a: 50}}").0;
    let queues: Vec<_> = settings.queues_by_priority().collect();
    assert_eq!((settings.order, queues), (Order::Lottery, vec![("a".into(), 5), ("b".into(), 9)]));
    assert_eq!(["a", "b"].map(|queue| settings.turn_of(&queue.into())), [50, 1]);
}

#[test]
fn file_sets_environment_directory_umask_and_orphans() {
    let env = "{pass: [DATABASE_URL, \"AWS_*\"], set: {B: x y, A: 1.10, C: ~}}";
    let (_, spec) = pool(&format!("{{env: {env}, cwd: /tmp/., umask: 022, leftovers: kill}}"));
    assert_eq!(spec.env_pass, ["DATABASE_URL", "AWS_*"]);
    assert_eq!(spec.env_set, [("B".into(), "x y".into()), ("A".into(), "1.10".into())]);
    assert_eq!((spec.cwd.as_deref(), spec.umask), (Some(Path::new("/tmp")), Some(0o022)));
    assert_eq!((spec.leftovers, spec.sandbox), (Leftovers::Kill, false));
    assert!(pool("{sandbox: true}").1.sandbox);
}

#[test]
fn file_may_begin_with_the_mark_of_some_editors() {
    let config = with_file("\u{feff}lease: 90s\n", Flags::default()).unwrap();
    assert_eq!(config.settings.lease, Duration::from_secs(90));
}

#[test]
fn file_sets_the_log_settings() {
    let text = "log: {format: json, level: warn, dir: logs, job_cap: 1MB, quota: 2GiB, keep: 7d, rotate: {size: 3kB, keep: 0}}";
    let log = with_file(text, Flags::default()).unwrap().log;
    let wanted = LogSettings {
        format: LogFormat::Json,
        level: LogLevel::Warn,
        dir: Some(std::path::absolute("logs").unwrap()),
        rotate: Rotate { size: 3_000, keep: 0 },
        job_cap: 1_000_000,
        quota: 2 << 30,
        keep: Duration::from_secs(7 * 86_400),
    };
    assert_eq!(log, wanted);
    assert_eq!(with_file("log: {rotate: {keep: 3}, dir: ~}", Flags::default()).unwrap().log.rotate.keep, 3);
    let error = with_file("log:\n  quota: 1 GB\n", Flags::default()).unwrap_err();
    assert_eq!(error.to_string(), "t.yaml:2:10: log.quota: '1 GB' is no size like 512MB, 1GiB or 100kB");
    let mut flags = Flags::default();
    flags.whole.log = Some(log::LogSection { format: Some(LogFormat::Text), ..log::LogSection::default() });
    assert_eq!(with_file(text, flags).unwrap().log.format, LogFormat::Text);
}

#[test]
fn null_is_the_default() {
    let keys = ["mode", "workers", "concurrency", "recycle", "queues", "order", "classes", "except_classes"];
    let more = [
        "command",
        "run",
        "env",
        "cwd",
        "umask",
        "user",
        "group",
        "sandbox",
        "leftovers",
        "grace",
        "lost_grace",
    ];
    let times = ["name", "boot_timeout", "limits", "class_limits", "retries", "retry_delay", "retry_cap"];
    let all: Vec<String> =
        [&keys[..], &more, &times].concat().iter().map(|key| format!("{key}: null")).collect();
    assert_eq!(pool(&format!("{{{}}}", all.join(", "))), pool("{}"));
    assert_eq!(pool("{env: {pass: null, set: null}}"), pool("{}"));
}

#[test]
fn a_flag_wins_over_the_file() {
    let said = Pool {
        workers: Some(Workers { max: Some(8), ..Workers::default() }),
        queues: Some(vec!["b".into()]),
        command: Some(words(&["sh"])),
        env: Some(Env { pass: Some(vec!["P".into()]), set: Some(Named(vec![("A".into(), "flag".into())])) }),
        ..Pool::default()
    };
    let file =
        "{workers: {min: 1, max: 2}, queues: [a], grace: 3s, run: x, env: {pass: [O], set: {A: a, B: b}}}";
    let (settings, spec) = flagged(file, said);
    assert_eq!((settings.min_workers, settings.workers, settings.grace), (None, 8, Duration::from_secs(3)));
    assert_eq!(settings.queues, ["b".into()]);
    assert_eq!(spec.work, Work::Command(words(&["sh"])));
    assert_eq!(spec.env_pass, ["O", "P"]);
    assert_eq!(spec.env_set, [("B".into(), "b".into()), ("A".into(), "flag".into())]);
    let at_least = Pool {
        workers: Some(Workers { min: Some(2), ..Workers::default() }),
        command: None,
        ..Pool::default()
    };
    let (settings, _) = flagged("{workers: 4}", at_least);
    assert_eq!((settings.min_workers, settings.workers), (Some(2), 4));
}

#[test]
fn contradictory_settings_are_refused() {
    let flags = || Flags { pool: Pool { retries: Some(8), ..Pool::default() }, ..Flags::default() };
    for (text, flags, words) in [
        ("pools:\n- {name: a}\n- {name: b}\n", flags(), "flags cannot say which"),
        ("pools:\n- {name: a}\n- {name: a}\n", Flags::default(), "pool 'a': two pools have this name"),
        ("pools: []\n", Flags::default(), "there is no pool"),
        ("pools:\n- {name: ../a}\n", Flags::default(), "this is no name"),
        ("pools:\n- {name: a/b}\n", Flags::default(), "this is no name"),
        ("lease: 15s\n", Flags::default(), "too short for a grace of 10s"),
        ("broker: amqp://:secret@q1/0\n", Flags::default(), "no broker speaks 'amqp:'"),
        ("broker: memory\n", Flags::default(), "no URL"),
    ] {
        let error = with_file(text, flags).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.to_string().contains("secret"));
    }
}

/// The text stands below the name of a pool `m`, so that its first line is the third.
#[track_caller]
fn refused(text: &str, expected: &str) {
    let text = text.replace('\n', "\n    ");
    let error = with_file(&format!("pools:\n  - name: m\n    {text}\n"), Flags::default()).unwrap_err();
    let hint = error.hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
    assert_eq!(format!("{error}{hint}"), expected);
}

#[test]
fn a_mode_that_does_not_fit_is_refused_with_its_reason() {
    refused(
        "mode: forck",
        "t.yaml:3:11: pools[0].mode: unknown variant `forck`, expected one of `prefork`, `fork`, `coroutine` | did you mean 'fork'?",
    );
    refused(
        "mode: prefork",
        "t.yaml:3:5: pool 'm': mode prefork needs a command: without one each job is a program of its own | set command to workers that speak the protocol",
    );
    refused(
        "run: x\nmode: coroutine",
        "t.yaml:4:5: pool 'm': mode coroutine does not go with run, which starts a program for each job | leave mode out, or use command",
    );
    refused(
        "command: sh\nconcurrency: 3",
        "t.yaml:4:5: pool 'm': a worker of mode prefork runs one job at a time, not 3 | set mode to coroutine for many jobs in one worker, or more workers",
    );
    refused(
        "command: sh\nmode: fork\nrecycle: {jobs: 3}",
        "t.yaml:5:5: pool 'm': each of its workers runs one job and ends: there is none to recycle | recycle is for the modes prefork and coroutine",
    );
}

#[test]
fn zero_and_contradictory_numbers_are_refused() {
    refused("workers: 0", "t.yaml:3:5: pool 'm': has no workers");
    refused(
        "workers: {min: 3, max: 2}",
        "t.yaml:3:15: pool 'm': workers.min is 3, more than workers.max, which is 2",
    );
    refused(
        "workers: {min: 0, max: 2}",
        "t.yaml:3:15: pool 'm': workers.min is 0: with no worker there is none to take the first job",
    );
    refused("concurrency: 0", "t.yaml:3:5: pool 'm': concurrency is 0: no job could run");
    refused(
        "command: sh\nrecycle: {jobs: 0}",
        "t.yaml:4:15: pool 'm': recycle.jobs is 0: no job could run | null = never",
    );
    refused("queues: []", "t.yaml:3:5: pool 'm': needs at least one queue, each with a name");
}

#[test]
fn pool_must_have_exactly_one_of_command_and_run() {
    refused(
        "command: a\nrun: b",
        "t.yaml:4:5: pool 'm': command and run cannot both say what its workers are | command: speaks the worker protocol; run: a program for each job, with its data on stdin",
    );
    refused("command: []", "t.yaml:3:5: pool 'm': command names no program");
    refused(
        "sandbox: true\ncwd: /",
        "t.yaml:3:5: pool 'm': sandbox and cwd cannot both say where its jobs work",
    );
    refused(
        "sandbox: true\nmode: coroutine\ncommand: sh",
        "t.yaml:3:5: pool 'm': jobs that share a process share its directory, which none can have alone | mode: prefork or fork",
    );
    refused(
        "command: a | b",
        "t.yaml:3:14: pools[0].command: 'a | b' is no command: | means something to a shell, and none reads it; quote it, or write [sh, -c, …]",
    );
}

#[test]
fn names_are_checked() {
    refused(
        "classes: [mail*Send]",
        "t.yaml:3:5: pool 'm': 'mail*Send' in classes has a * that is not its last letter | give whole names, or a beginning and one *: mail.*",
    );
    refused(
        "classes: [mail.*]",
        "t.yaml:3:5: pool 'm': classes leaves it nothing to do: without command or run it takes class exec alone",
    );
    let hint = "pass is a list of names, each may end in *; set is a map from names to values";
    refused(
        "env: {pass: [A=secret]}",
        &format!("t.yaml:3:11: pool 'm': 'A=…' in env.pass is no name of a variable | {hint}"),
    );
    refused(
        "env: {set: {1A: b}}",
        &format!("t.yaml:3:17: pool 'm': '1A' in env.set is no name of a variable | {hint}"),
    );
    refused(
        "env: {set: {TASKVISOR_FD: 9}}",
        "t.yaml:3:17: pool 'm': TASKVISOR_FD cannot be set: taskvisor gives the variables TASKVISOR_* to its workers",
    );
    refused("env:\n  set:\n    A: 1\n    B: 2\n    A: 3", "t.yaml:7:9: the setting 'A' is given twice");
    refused(
        "env: [A]",
        "t.yaml:3:10: pools[0].env: it is a list, and {pass: [NAME], set: {NAME: VALUE}} is expected",
    );
    refused("env: {sett: {}}", "t.yaml:3:11: unknown setting 'sett' | did you mean 'set'?");
}

#[test]
fn programs_and_directories_must_exist_on_the_machine() {
    refused(
        "cwd: /nosuch",
        "t.yaml:3:5: pool 'm': cwd /nosuch cannot be used: No such file or directory (os error 2)",
    );
    refused("cwd: /dev/null", "t.yaml:3:5: pool 'm': cwd /dev/null is no directory");
    refused(
        "command: nosuch -x",
        "t.yaml:3:5: pool 'm': there is no program 'nosuch' in PATH | is it misspelled? PATH is the one that start was given",
    );
    refused("run: ./null\ncwd: /dev", "t.yaml:3:5: pool 'm': /dev/./null is no program that can be run");
    refused("umask: 089", "t.yaml:3:5: pool 'm': '089' is no umask | octal, from 000 to 777: \"022\"");
    refused("user: nosuch", "t.yaml:3:5: pool 'm': this machine knows no user 'nosuch'");
    refused(
        "user: root",
        "t.yaml:3:5: pool 'm': only root may run workers as user 'root' | start taskvisor as root",
    );
}

#[test]
fn verbs_do_not_check_the_pools_of_the_file() {
    let reads = |text: &str, purpose| {
        let file = File::parse(&format!("pools:\n- {text}\n"), "t.yaml").unwrap();
        resolve(Flags { pool: file.pools.unwrap().remove(0), purpose, ..Flags::default() }, &user())
    };
    assert!(reads("{cwd: /nosuch, user: nosuch, command: nosuch}", Purpose::Find).is_ok());
    // A restarted supervisor has jobs to settle, so missing programs must not stop it.
    assert!(reads("{cwd: /nosuch, command: nosuch}", Purpose::Serve).is_ok());
    assert!(reads("{user: nosuch}", Purpose::Serve).is_err());
}

#[test]
fn directory_to_watch_may_be_away_later_but_not_at_the_start() {
    for purpose in [Purpose::Serve, Purpose::Start, Purpose::Find] {
        let flags = Flags { watch: vec!["/nosuch".into()], purpose, ..Flags::default() };
        let config = resolve(flags, &user()).expect("a restart and a reload go on");
        assert!(watched_are_there(&config).unwrap_err().to_string().contains("failed to watch /nosuch"));
    }
}

#[test]
fn the_example_file_holds_the_defaults() {
    let text = include_str!("../../../conf/taskvisor.yaml");
    let file = File::parse(text, "conf/taskvisor.yaml").unwrap();
    let config = with_file(text, Flags::default()).unwrap();
    assert_eq!(Config { file: None, ..config }, resolve(Flags::default(), &user()).unwrap());
    // Defaults that depend on the user are comments in the file, all others are set, so nothing is missing.
    let whole = text.replace("\n#state_dir:", "\nstate_dir:").replace("\n#run_dir:", "\nrun_dir:");
    let whole = File::parse(&whole.replace("\n#broker:", "\nbroker:"), "conf/taskvisor.yaml").unwrap();
    assert!(whole.state_dir.is_some() && whole.run_dir.is_some() && whole.broker.is_some());
    assert!(file.lease.is_some() && file.stop_deadline.is_some() && file.held_degrades.is_some());
}

#[test]
fn the_pools_of_the_example_file_can_be_used() {
    let text = include_str!("../../../conf/taskvisor.yaml");
    let (_, example) = text.split_once("\n# pools:\n").expect("an example");
    let lines: Vec<&str> = example.lines().map(|line| line.trim_start_matches('#')).collect();
    let file = File::parse(&format!("pools:\n{}", lines.join("\n")), "t.yaml").unwrap();
    let modes: Vec<_> = file.pools.as_ref().unwrap().iter().map(|pool| pool.mode).collect();
    assert_eq!(modes, [Some(Mode::Prefork), Some(Mode::Fork), Some(Mode::Coroutine)]);
    for pool in file.pools.unwrap() {
        assert!(resolve(Flags { pool, ..Flags::default() }, &user()).is_ok());
    }
}

#[test]
fn mistyped_address_of_the_api_is_named_before_a_missing_token() {
    let error = with_file("api:\n  listen: localhost\n", Flags::default()).unwrap_err();
    assert_eq!(error.to_string(), "t.yaml:2:3: 'localhost' is nothing to listen on");
}

#[test]
fn reload_refuses_what_only_a_restart_takes() {
    let read = |text: &str| with_file(text, Flags::default()).unwrap();
    let (before, with_log) = (read("lease: 1m\n"), read("log: {keep: 24h}\n"));
    for (known, text, refused) in [
        (&before, "lease: 2m\nheld_degrades: false\npools: [{grace: 3s}]\n", None),
        (&before, "broker: 'memory:'\n", Some("broker")),
        (&before, "run_dir: /srv/x\n", Some("run_dir")),
        (&before, "route: [{classes: [a], to: 'redis://h'}]\n", Some("route")),
        (&before, "log: {rotate: {keep: 3}}\n", Some("log")),
        (&before, "wq: {enabled: true, class: C}\n", Some("wq")),
        // What is the same in other words, or has no effect, is no change.
        (&with_log, "log: {keep: 1d}\n", None),
        (&before, "wq: {queue: q}\n", None),
    ] {
        assert_eq!(known.needs_restart(&read(text)), refused, "{text}");
    }
    let api = |allow_exec, hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Config { api: Some(Api { allow_exec, hosts, ..Api::default() }), ..before.clone() }
    };
    assert_eq!(before.needs_restart(&api(false, &[])), Some("api.listen"));
    assert_eq!(api(false, &[]).needs_restart(&api(true, &[])), Some("api.allow_exec"));
    assert_eq!(api(false, &[]).needs_restart(&api(false, &["h"])), None);
}
