//! Each rule with an example where it finds something, and one where it does not.

use std::collections::BTreeMap;

use super::super::{Disk, Facts, Flags, Origins, PoolFacts, Purpose, Rights, Surroundings, resolve};
use super::{Finding, check, limits, logs, pair, pool, whole};

fn found(text: &str, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.yaml");
    std::fs::write(&path, text).unwrap();
    let api_token = Some("0123456789abcdef".into());
    let around = Surroundings { home: Some("/home/u".into()), api_token, ..Surroundings::default() };
    let flags = Flags { config: Some(path.clone()), purpose: Purpose::Serve, ..Flags::default() };
    let config = resolve(flags, &around).expect("settings that start takes");
    let pools = vec![PoolFacts::default(); config.specs.len()];
    let mut facts = Facts { uid: 0, cpus: 2, pools, ..Facts::default() };
    change(&mut facts);
    let mut found = check(&config, &facts, &Origins::read(Some(&path), BTreeMap::new()).unwrap());
    for finding in &mut found {
        finding.place =
            finding.place.take().map(|place| place.rsplit('/').next().unwrap_or_default().to_owned());
    }
    found
}

/// Asserts that only this rule reports a finding, at this place and with these words.
#[track_caller]
fn finds_with(rule: &str, text: &str, place: Option<&str>, words: &str, change: impl FnOnce(&mut Facts)) {
    let all = found(text, change);
    let [finding] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((finding.rule, finding.place.as_deref()), (rule, place), "{finding:#?}");
    assert!(finding.message.contains(words) && !finding.hint.is_empty(), "{finding:#?}");
}

#[track_caller]
fn finds(rule: &str, pool: &str, place: &str, words: &str) {
    finds_with(rule, &format!("pools:\n- name: m\n  {pool}\n"), Some(place), words, |_| ());
}

#[track_caller]
fn finds_nothing(pool: &str) {
    let all = found(&format!("pools:\n- name: m\n  {pool}\n"), |_| ());
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn the_defaults_are_in_order() {
    let example = include_str!("../../../conf/taskvisor.yaml");
    assert_eq!(found("lease: null\n", |_| ()), []);
    assert_eq!(found(example, |_| ()), []);
}

#[test]
fn every_rule_has_a_name_and_an_example() {
    let of_pools = pool::RULES.iter().chain(&limits::RULES).map(|rule| rule.0);
    let of_whole = whole::RULES.iter().chain(&logs::RULES).map(|rule| rule.0);
    let names: Vec<&str> = of_pools.chain(of_whole).chain(pair::RULES.iter().map(|rule| rule.0)).collect();
    let own = include_str!("tests.rs");
    let page = include_str!("../../../docs/operations.md");
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{name} twice");
        assert!(own.contains(&format!("\"{name}\"")), "no example of {name}");
        assert!(page.contains(&format!("| `{name}` |")), "docs/operations.md says nothing of {name}");
    }
}

#[test]
fn times_that_contradict_each_other() {
    finds(
        "grace-beyond-stop",
        "grace: 25s",
        "t.yaml:3:3",
        "a grace of 25s does not fit into a stop_deadline of 25s",
    );
    finds_nothing("grace: 24s");
    finds("no-grace", "grace: 0s", "t.yaml:3:3", "KILL follows TERM at once");
    finds("short-boot", "boot_timeout: 10ms", "t.yaml:3:3", "within 10ms");
    finds("short-boot", "boot_timeout: 500ms\n  command: sh", "t.yaml:3:3", "within 500ms");
    finds_nothing("boot_timeout: 500ms");
}

#[test]
fn waits_that_never_come() {
    finds("delay-above-cap", "retries: 3\n  retry_delay: 1h", "t.yaml:4:3", "every wait is 15m");
    finds("cap-not-reached", "retries: 3\n  retry_cap: 14m", "t.yaml:4:3", "the last of 3 waits is 4s");
    finds_nothing("retries: 3\n  retry_cap: 4s");
    finds_nothing("retries: 3\n  retry_delay: 2s\n  retry_cap: 15m");
    finds("delay-without-retries", "retry_delay: 2s", "t.yaml:3:3", "retries is 0");
    finds("delay-without-retries", "retry_cap: 2s", "t.yaml:3:3", "retries is 0");
    finds_nothing("retry_delay: 2s\n  command: sh");
}

#[test]
fn classes_that_take_each_other_away() {
    let nothing = "except_classes leaves no class";
    finds(
        "classes-undone",
        "command: sh\n  classes: [mail.Send]\n  except_classes: [mail.*]",
        "t.yaml:5:3",
        nothing,
    );
    finds("classes-undone", "command: sh\n  except_classes: ['*']", "t.yaml:4:3", nothing);
    let one = "'mail.Send' in classes has no effect";
    finds(
        "classes-undone",
        "command: sh\n  classes: [sms, mail.Send]\n  except_classes: [mail.Send]",
        "t.yaml:5:3",
        one,
    );
    finds_nothing("command: sh\n  classes: [mail.*]\n  except_classes: [mail.Send]");
    let idle = "'sms' in except_classes has no effect";
    finds(
        "exception-of-nothing",
        "command: sh\n  classes: [mail.*]\n  except_classes: [sms]",
        "t.yaml:5:3",
        idle,
    );
}

#[test]
fn settings_without_effect() {
    finds("queue-list", "queues: [a, 'b,c']", "t.yaml:3:3", "'b,c' is the name of one queue");
    finds("queue-twice", "queues: [a, b, a]", "t.yaml:3:3", "the queue 'a' is named twice");
    let lottery = "order: lottery\n  queues: [a, b]\n  queue_priorities: {a: 9, b: 1}";
    let unused = lottery.replace("lottery", "round_robin");
    finds("priorities-unused", &unused, "t.yaml:5:3", "order round_robin does not look at it");
    let none = lottery.replace("[a, b]", "[a, B, c]");
    finds("priority-of-none", &none, "t.yaml:5:28", "queue_priorities.b has no effect");
    let turns = "order: lottery\n  queues: [a, b]\n  queue_priorities: {a: 9, b: 1}\n  queue_turns: {a: 50}";
    let unused = turns.replace("lottery", "strict_priority");
    finds("turns-unused", &unused, "t.yaml:6:3", "order strict_priority draws no queue");
    finds("turn-of-none", &turns.replace("a: 50", "c: 50"), "t.yaml:6:17", "queue_turns.c has no effect");
    finds_nothing(turns);
    let equal = "order: reduced_lottery\n  queues: [a, b]";
    finds("priorities-equal", equal, "t.yaml:3:3", "all its queues have 5");
    finds("order-of-one", "order: shuffled", "t.yaml:3:3", "there is only one");
    finds_nothing(lottery);
    finds_nothing("order: priority_aging\n  queues: [a, b]");
    let few = "mode: coroutine\n  command: sh\n  recycle: {jobs: 50}";
    finds("life-below-concurrency", few, "t.yaml:5:13", "ends after 50 jobs, so it never has the 100");
    let young = "command: sh\n  recycle: {age: 30s}";
    finds("life-below-boot", young, "t.yaml:4:13", "at the age of 30s it is recycled");
    finds_nothing("command: sh\n  boot_timeout: 10s\n  recycle: {age: 30s}");
    finds("leftovers-unused", "leftovers: kill", "t.yaml:3:3", "no effect in mode fork");
    finds_nothing("leftovers: kill\n  command: sh");
}

#[test]
fn limits_that_cannot_be_met_or_never_are() {
    let late = "command: sh\n  limits: {time: 5m}\n  class_limits: {m.Send: {soft_time: 5m}}";
    finds("soft-time-late", late, "t.yaml:5:27", "a job ends after 5m, and is told of that after 5m");
    finds_nothing("command: sh\n  limits: {time: 5m}\n  class_limits: {m.Send: {soft_time: 4m}}");
    finds(
        "soft-time-unheard",
        "limits: {soft_time: 5m}",
        "t.yaml:3:12",
        "no effect: a program is told nothing",
    );
    finds("cpu-not-reached", "limits: {time: 5m, cpu: 10m}", "t.yaml:3:22", "there are 2 processors");
    finds_nothing("limits: {time: 5m, cpu: 9m}");
    finds("memory-too-small", "limits: {memory: 512kB}", "t.yaml:3:12", "limits.memory is 512 kB");
    let class = "command: sh\n  class_limits: {m.Send: {memory: 2MB}}";
    finds("memory-too-small", class, "t.yaml:4:27", "class_limits.m.Send.memory is 2 MB");
    finds_nothing("limits: {memory: 2MB}");
    let text = "pools:\n- limits: {memory: 2GB}\n";
    let words = "limits.memory of 2 GB is never reached: the machine, or the cgroup, has 1 GB";
    finds_with("memory-not-reached", text, Some("t.yaml:2:12"), words, |facts| {
        facts.memory = Some(1_000_000_000)
    });
    let both =
        |recycle: &str| format!("command: sh\n  limits: {{memory: 1GB}}\n  recycle: {{memory: {recycle}}}");
    finds("recycle-not-reached", &both("1GB"), "t.yaml:5:13", "no worker is recycled at 1 GB");
    finds_nothing(&both("800MB"));
    let shell = |program: &str| format!("run: {program} -c x\n  limits: {{processes: 1}}");
    finds("lone-shell", &shell("/bin/sh"), "t.yaml:4:12", "limits.processes is 1, which sh is itself");
    finds_nothing(&shell("env"));
    let classes = "command: sh\n  classes: [mail.*]\n  class_limits: {mial.Send: {time: 1m}}";
    finds("class-not-taken", classes, "t.yaml:5:18", "class_limits.mial.Send has no effect");
    finds(
        "class-not-taken",
        "class_limits: {mail.Send: {time: 1m}}",
        "t.yaml:3:18",
        "takes no job of that class",
    );
    finds_nothing("class_limits: {exec: {time: 1m}}");
}

#[test]
fn logs_that_are_gone_before_they_are_read() {
    let log = |text: &str| format!("log:\n  {text}\npools:\n- limits: {{time: 1h}}\n");
    let finds = |rule, text: &str, words| finds_with(rule, &log(text), Some("t.yaml:2:3"), words, |_| ());
    finds("quota-below-cap", "quota: 9MiB", "log.quota is 9.4 MB, less than log.job_cap, 10.5 MB");
    finds("keep-short", "keep: 1h", "then nothing for 1h, it is gone at its end");
    assert_eq!(found(&log("keep: 2h"), |_| ()), []);
    let words = "then nothing for 1m";
    finds_with("keep-short", "log:\n  keep: 0s\n", Some("t.yaml:2:3"), words, |_| ());
    finds("rotate-unused", "rotate: {keep: 3}", "no effect without log.dir");
    finds("log-short", "rotate: {size: 50kB, keep: 3}\n  dir: /x", "is kept for 200 kB alone");
    assert_eq!(found(&log("rotate: {size: 500kB, keep: 0}\n  dir: /x"), |_| ()), []);
    let words = "log.quota is 1.1 GB, and the disk of /x has 1 GB";
    finds_with("quota-above-disk", "state_dir: /x\n", None, words, |facts| {
        facts.capacity = Some(1_000_000_000)
    });
}

#[test]
fn rights_that_are_too_wide_or_too_narrow() {
    finds("umask", "umask: '000'", "t.yaml:3:3", "files that everybody may write");
    finds("umask", "umask: '777'", "t.yaml:3:3", "takes rights from the workers' own user");
    finds_nothing("umask: '027'");
    finds("passes-all", "env: {pass: ['*']}", "t.yaml:3:9", "every variable of the supervisor");
    finds_nothing("env: {pass: ['AWS_*']}");
    let text = "pools:\n- command: sh\n  cwd: /\n  user: daemon\n";
    let rights = |owner, writable| Rights { path: "/bin/w".into(), owner, writable, readable: true };
    let program = |rights| move |facts: &mut Facts| facts.pools[0].program = Some(rights);
    let open = "everybody on this machine may change /bin/w";
    finds_with("program-open", text, Some("t.yaml:2:3"), open, program(rights(0, true)));
    finds_with("program-open", text, Some("t.yaml:2:3"), "uid 4242 may change", program(rights(4242, false)));
    assert_eq!(found(text, program(rights(1, false))), [], "it may be the pool's own user's");
    let closed = |facts: &mut Facts| facts.pools[0].program_closed = Some("/root".into());
    let words = "user 'daemon' may not run its program: /root is closed to it";
    finds_with("program-closed", text, Some("t.yaml:2:3"), words, closed);
    let closed = |facts: &mut Facts| facts.pools[0].cwd_closed = Some("/root".into());
    let words = "user 'daemon' may not enter its cwd: /root is closed to it";
    finds_with("cwd-closed", text, Some("t.yaml:3:3"), words, closed);
}

#[test]
fn a_file_that_gives_too_much_away() {
    let rights = |owner, writable, readable| Rights { path: "/etc/t.yaml".into(), owner, writable, readable };
    let file = |rights| move |facts: &mut Facts| facts.file = Some(rights);
    let text = "pools:\n- env: {set: {API_KEY: x}}\n";
    let words = "API_KEY looks like a secret, and everybody on this machine may read /etc/t.yaml";
    finds_with("secret-readable", text, Some("t.yaml:2:15"), words, file(rights(0, false, true)));
    assert_eq!(found(text, file(rights(0, false, false))), []);
    assert_eq!(found("lease: null\n", file(rights(0, false, true))), []);
    let words = "everybody on this machine may change /etc/t.yaml";
    finds_with("config-open", "lease: null\n", Some("t.yaml"), words, file(rights(0, true, true)));
    finds_with(
        "config-open",
        "lease: null\n",
        Some("t.yaml"),
        "uid 7 may change",
        file(rights(7, false, true)),
    );
}

#[test]
fn notifications_that_lead_nowhere() {
    finds_with("tasks-off", "wq:\n  class: Insert\n", Some("t.yaml:2:3"), "are not taken in", |_| ());
    finds_with(
        "tasks-unserved",
        "wq:\n  enabled: true\n  queue: leap\n",
        Some("t.yaml:3:3"),
        "no pool takes jobs from it",
        |_| (),
    );
    assert_eq!(found("wq: {enabled: true, class: Insert}\n", |_| ()), []);
}

#[test]
fn leases_of_queues_that_have_no_effect() {
    let text = |lease: &str| {
        format!("broker: 'sqs://eu-west-1?{lease}'\nlease: 2m\npools:\n- {{name: m, queues: [mail, web]}}\n")
    };
    let finds = |rule, lease, words| finds_with(rule, &text(lease), Some("t.yaml:1:1"), words, |_| ());
    finds("lease-of-none", "lease=mail:10m&lease=wbe:10m", "lease=wbe:… has no effect: no pool takes");
    finds(
        "lease-not-longer",
        "lease=mail:10m&lease=web:30s",
        "lease=web:30s has no effect: the lease of all",
    );
    finds("lease-not-longer", "lease=mail:10m&lease=web:2m", "lease=web:2m has no effect");
    assert_eq!(found(&text("lease=mail:10m&lease=web:3m"), |_| ()), []);
}

#[test]
fn an_api_that_is_too_open() {
    let api = |text: &str| format!("api:\n  listen: 10.0.0.5:80\n  {text}\n");
    let [clear, missing] = &found(&api(""), |_| ())[..] else { panic!("not two") };
    assert_eq!((clear.rule, missing.rule), ("token-in-clear", "names-missing"));
    assert_eq!((&clear.place, &missing.place), (&Some("t.yaml:2:3".into()), &Some("t.yaml:2:3".into())));
    assert_eq!(found(&api("hosts: [10.0.0.5]"), |_| ()).len(), 1);
    assert_eq!(found("api: {listen: '[::1]:80'}\n", |_| ()), []);
    let allowed = "api:\n  listen: 127.0.0.1:80\n  allow_exec: true\n";
    finds_with("programs-by-tcp", allowed, Some("t.yaml:3:3"), "can run any program", |_| ());
}

#[test]
fn a_machine_that_is_too_small() {
    let text = "pools:\n- workers: 64\n";
    assert_eq!(found(text, |_| ()), []);
    finds_with("too-many-workers", text, Some("t.yaml:1:1"), "64 workers share 1 processors", |facts| {
        facts.cpus = 1
    });
    finds_with("memory", text, Some("t.yaml:1:1"), "4 MiB for each", |facts| facts.memory = Some(256 << 20));
    finds_with("processes", text, Some("t.yaml:1:1"), "may have 100", |facts| facts.processes = Some(100));
    finds_with("descriptors", text, Some("t.yaml:1:1"), "may have 200", |facts| {
        facts.descriptors = Some(200)
    });
    finds_with("cpu-time", text, Some("t.yaml:1:1"), "may use 9 s", |facts| facts.cpu_time = Some(9));
    let words = "is kept in memory";
    finds_with("state-in-memory", "state_dir: /dev/shm/x\n", Some("t.yaml:1:1"), words, |facts| {
        facts.state = Disk::Memory
    });
}

#[test]
fn pools_that_are_in_each_others_way() {
    let pools =
        |first: &str, second: &str| format!("pools:\n- {{name: a, {first}}}\n- {{name: b, {second}}}\n");
    let same = pools("command: sh, queues: [x, y]", "command: sh, queues: [y, x]");
    finds_with("same-work", &same, Some("t.yaml:3:26"), "it does what pool 'a' does", |_| ());
    let programs = pools("workers: 2", "limits: {time: 1m}");
    finds_with("same-work", &programs, None, "it does what pool 'a' does", |_| ());
    let mixed = pools("queues: [x]", "command: sh, queues: [y, x]");
    finds_with("mixed-queue", &mixed, Some("t.yaml:3:26"), "take each other's jobs from queue 'x'", |_| ());
    for (first, second) in [
        ("command: sh, queues: [x]", "command: sh, queues: [y]"),
        ("command: sh, classes: [mail.*]", "command: sh"),
        ("queues: [x]", "command: sh, queues: [x], except_classes: [exec]"),
        ("command: sh, classes: [mail.*]", "command: env, except_classes: [mail.*]"),
    ] {
        assert_eq!(found(&pools(first, second), |_| ()), [], "{first} | {second}");
    }
}
