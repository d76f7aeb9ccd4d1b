//! The command line without a supervisor: exit code, stdout, stderr.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

struct Sandbox {
    dir: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Self {
        Sandbox { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskvisor"));
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("TASKVISOR_STATE_DIR", self.path().join("state"))
            .env("TASKVISOR_RUN_DIR", self.path().join("run"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Asserts the exit code, the words on stderr and that stdout is empty.
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        let output = self.run(args);
        let stderr =
            String::from_utf8(output.stderr).unwrap().replace(&self.path().display().to_string(), "DIR");
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert_eq!(output.stdout, b"", "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no {word:?} in:\n{stderr}");
        }
    }
}

#[test]
fn mistyped_commands_and_flags_are_refused_with_a_suggestion() {
    let sandbox = Sandbox::new();
    sandbox.refused(&["strat"], 2, &["unrecognized subcommand 'strat'", "'start'"]);
    sandbox.refused(&["start", "--wrokers", "8"], 2, &["'--wrokers'", "'--workers'"]);
    sandbox.refused(&["start", "-w", "0"], 2, &["-w", "0 is not in 1.."]);
    sandbox.refused(&["start", "--grace", "10"], 2, &["'10' is no duration like 250ms, 10s"]);
    sandbox.refused(&["job", "list", "-s", "lost"], 2, &["no job state is called 'lost'"]);
    sandbox.refused(&["put"], 2, &["<COMMAND>"]);
    sandbox.refused(&["put", "--lines", "--jid", "a", "--", "true"], 2, &["cannot be used with"]);
    sandbox.refused(&["put", "--jid", "a\tb", "--", "true"], 2, &["control characters"]);
    sandbox.refused(&["put", "--lines", "-d", "-", "--", "true"], 2, &["both want to read stdin", "hint: "]);
    sandbox.refused(&["stop", "--now", "--kill"], 2, &["cannot be used with"]);
    for verb in
        [&["job", "show"][..], &["job", "wait", "a"], &["job", "retry"], &["queue", "pause"], &["why", "job"]]
    {
        sandbox.refused(&[verb, &[""]].concat(), 2, &["a value is required for '", "but none was supplied"]);
    }
    let no_time = "a time limit of 0 would end the job at once";
    sandbox.refused(&["put", "--time-limit", "0s", "--", "true"], 2, &["failed to put the job", no_time]);
    sandbox.refused(
        &["recur", "put", "n", "--every", "1m", "--time-limit", "0s", "--", "true"],
        2,
        &[no_time],
    );
}

#[test]
fn usage_omits_arguments_set_by_the_environment_and_errors_name_the_variable() {
    let sandbox = Sandbox::new();
    sandbox.refused(&["job", "wait"], 2, &["Usage: taskvisor job wait <JID>...\n"]);
    sandbox.refused(&["job", "logs"], 2, &["Usage: taskvisor job logs <JID>\n"]);
    let both = sandbox.run(&["stop", "--now", "--kill"]);
    let both = String::from_utf8(both.stderr).unwrap();
    assert!(both.contains("'--now' cannot be used with '--kill'") && !both.contains("--state-dir"), "{both}");
    for (variable, value, why) in [
        ("TASKVISOR_WORKERS", "x", "it is no whole number"),
        ("TASKVISOR_LOG", "loud", "possible values: error"),
    ] {
        let checked = sandbox.command(&["check"]).env(variable, value).output().unwrap();
        let said = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.code(), Some(2), "{said}");
        let starts = format!("error: invalid value '{value}' for '{variable}'");
        assert!(said.starts_with(&starts) && said.contains(why), "{said}");
        let typed = sandbox.command(&["check", "-w", "y"]).env("TASKVISOR_WORKERS", "x").output().unwrap();
        let said = String::from_utf8(typed.stderr).unwrap();
        assert!(said.starts_with("error: invalid value 'y' for '--workers <N>'"), "{said}");
    }
}

#[test]
fn wrong_settings_are_refused_with_their_place() {
    let sandbox = Sandbox::new();
    sandbox.write("t.yaml", "lease: 1m\npools:\n  - name: a\n    wokers: 8\n");
    let expected = "error: t.yaml:4:5: unknown setting 'wokers'\nhint: did you mean 'workers'?\n";
    sandbox.refused(&["start", "-c", "t.yaml"], 78, &[expected]);
    sandbox.refused(&["start", "-c", "none.yaml"], 78, &["failed to read none.yaml: No such file"]);
    sandbox.refused(
        &["start", "-b", "amqp://:pw@h/0"],
        78,
        &["no broker speaks 'amqp:'", "hint: sqlite:PATH"],
    );
    sandbox.refused(&["start", "--grace", "1m"], 78, &["a lease of 1m is too short for a grace of 1m"]);
}

#[test]
fn a_pool_that_cannot_work_is_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    sandbox.refused(
        &["start", "-m", "coroutine"],
        78,
        &["error: pool 'default': mode coroutine needs a command"],
    );
    sandbox.refused(
        &["start", "--concurrency", "5", "--", "worker"],
        78,
        &["error: pool 'default': a worker of mode prefork runs one job at a time, not 5", "hint: set mode"],
    );
    sandbox.refused(&["start", "--env", "TASKVISOR_FD=9"], 78, &["TASKVISOR_FD cannot be set"]);
    sandbox.refused(&["start", "--cwd", "none"], 78, &["cwd DIR/none cannot be used: No such file"]);
    sandbox.refused(
        &["start", "--", "wroker"],
        78,
        &["pool 'default': there is no program 'wroker' in PATH"],
    );
    sandbox.refused(&["start", "--cwd", "/", "--sandbox"], 2, &["cannot be used with"]);
    sandbox.refused(&["start", "--order", "round-robin"], 2, &["round_robin"]);
    sandbox.write("t.yaml", "pools:\n  - name: a\n    workers: 2\n    cwd: none\n");
    sandbox.refused(&["start", "-c", "t.yaml"], 78, &["error: t.yaml:4:5: pool 'a': cwd DIR/none cannot"]);
    sandbox.refused(&["status", "-c", "t.yaml"], 3, &["no supervisor listens"]);
    sandbox.write("two.yaml", "pools:\n  - name: a\n  - name: b\n");
    for flags in [&["-m", "fork"][..], &["--env", "A"], &["--class", "a"], &["--", "worker"]] {
        let args = [&["start", "-c", "two.yaml"], flags].concat();
        sandbox.refused(&args, 2, &["the file has 2 pools: flags cannot say which they mean"]);
    }
}

#[test]
fn commands_exit_3_when_no_supervisor_listens() {
    let sandbox = Sandbox::new();
    let words = ["error: no supervisor listens on DIR/run/ctl.sock", "hint: start one with"];
    sandbox.refused(&["status"], 3, &words);
    sandbox.refused(&["stop"], 3, &words);
    sandbox.refused(&["put", "-b", "memory:", "--", "true"], 3, &words);
    std::fs::create_dir(sandbox.path().join("run")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(sandbox.path().join("run/ctl.sock")).unwrap());
    sandbox.refused(&["status"], 3, &words);
    let quiet = sandbox.run(&["status", "-q"]);
    assert_eq!((quiet.status.code(), quiet.stdout, quiet.stderr), (Some(3), vec![], vec![]));
}

#[test]
fn quiet_status_prints_nothing_when_the_supervisor_does_not_answer() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("run")).unwrap();
    let _stopped = std::os::unix::net::UnixListener::bind(sandbox.path().join("run/ctl.sock")).unwrap();
    let quiet = sandbox.run(&["status", "-q"]);
    assert_eq!((quiet.status.code(), quiet.stdout, quiet.stderr), (Some(6), vec![], vec![]));
}

#[test]
fn second_start_is_refused_and_names_the_run_directory() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("run")).unwrap();
    let own = std::process::id();
    sandbox.write("run/lock", &format!("{own}\n"));
    let file = std::fs::File::open(sandbox.path().join("run/lock")).unwrap();
    let held = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let words = format!("a supervisor uses DIR/run already (pid {own})");
    sandbox.refused(&["start"], 69, &[&words, "hint: taskvisor stop"]);
    let by_supervisord = sandbox.command(&["start"]).env("SUPERVISOR_ENABLED", "1").output().unwrap();
    let said = String::from_utf8(by_supervisord.stderr).unwrap();
    assert!(said.contains("hint: numprocs=1 in supervisord: one taskvisor has all workers"), "{said}");
    drop(held);
}

#[test]
fn directory_that_another_program_has_locked_is_said_to_be_locked_by_that() {
    let sandbox = Sandbox::new();
    let own = std::process::id();
    for name in ["run", "state"] {
        let dir = sandbox.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let file = std::fs::File::open(&dir).unwrap();
        let held = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive);
        let words = format!("(pid {own}), which is no supervisor, has locked DIR/{name} (flock)");
        sandbox.refused(&["start"], 69, &[&words, "hint: once it has ended, start again"]);
        drop(held);
    }
}

#[test]
fn run_directory_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let run = sandbox.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).unwrap();
    sandbox.refused(&["start"], 77, &["DIR/run can be written by others (mode 777)"]);
}

#[test]
fn closed_stdout_is_no_failure() {
    let sandbox = Sandbox::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = sandbox.command(&["put", "--help"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}

#[test]
fn help_and_version_go_to_stdout() {
    let sandbox = Sandbox::new();
    for args in [&["--help"][..], &["help", "put"], &["job", "logs", "--help"], &["--version"]] {
        let output = sandbox.run(args);
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
        assert!(!output.stdout.is_empty());
    }
    let alone = sandbox.run(&[]);
    let help = String::from_utf8(alone.stderr).expect("text");
    assert_eq!((alone.status.code(), help.contains("Jobs and queues:\n")), (Some(2), true), "{help}");
}

#[test]
fn commands_that_read_make_no_store_and_say_that_there_is_none() {
    let sandbox = Sandbox::new();
    let reads: [&[&str]; 6] = [
        &["job", "list"],
        &["queue", "list"],
        &["failed"],
        &["job", "show", "x"],
        &["why", "job", "x"],
        &["recur", "list"],
    ];
    for read in reads {
        sandbox.refused(
            read,
            69,
            &["there is no store DIR/state/store.db", "taskvisor start and put make one"],
        );
    }
    assert!(!sandbox.path().join("state").exists());
    let put = ["-b", "sqlite:DIR/typo/x.db", "put", "--", "true"];
    let put = put.map(|word| word.replace("DIR", &sandbox.path().display().to_string()));
    let put: Vec<&str> = put.iter().map(String::as_str).collect();
    sandbox.refused(&put, 69, &["there is no directory DIR/typo\n", "make it, or give another path"]);
    assert!(!sandbox.path().join("typo").exists());
}

#[test]
fn mistyped_filters_of_ended_jobs_are_refused() {
    let sandbox = Sandbox::new();
    let put = sandbox.run(&["put", "--jid", "one", "--", "true"]);
    assert!(put.status.success());
    for act in ["retry", "discard"] {
        let group = ["job", act, "--failed", "--group", "nosuch"];
        sandbox.refused(&group, 7, &["no job has the failure group 'nosuch'"]);
        let class = ["job", act, "--failed", "--class", "NoSuch"];
        sandbox.refused(&class, 7, &["no job has the class 'NoSuch'"]);
        let output = sandbox.run(&["job", act, "--failed", "--queue", "nosuch"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(7) && !stderr.contains("before that"), "{stderr}");
    }
    sandbox.refused(&["failed", "--class", "NoSuch"], 7, &["no job has the class 'NoSuch'"]);
    sandbox.refused(&["events", "--job", "nosuch"], 7, &["nosuch"]);
    let attempt = ["job", "logs", "one", "--attempt", "9"];
    sandbox.refused(&attempt, 7, &["job one has no attempt 9: it has had 0"]);
}

#[test]
fn help_that_cannot_be_printed_is_no_panic() {
    let sandbox = Sandbox::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let help = sandbox.command(&["--help"]).stdout(full()).output().unwrap();
    assert_eq!(help.status.code(), Some(74), "{}", String::from_utf8_lossy(&help.stderr));
    let bare = sandbox.command(&[]).stderr(full()).status().unwrap();
    assert_eq!(bare.code(), Some(2));
}

#[test]
fn words_of_other_tools_and_wrong_numbers_get_advice() {
    let sandbox = Sandbox::new();
    let advice: [(&[&str], &str); 9] = [
        (&["cancel", "x"], "here that is: taskvisor job cancel JID"),
        (&["ps"], "here that is: taskvisor status"),
        (&["job", "kill", "x"], "here that is: taskvisor job cancel JID"),
        (&["queue", "purge", "mail"], "here that is: taskvisor job cancel --queue QUEUE"),
        (&["put", "--delay", "-5s", "--", "true"], "the value of --delay cannot be negative"),
        (&["check", "-w", "-3"], "the value of -w cannot be negative"),
        (&["failed", "--group", "x"], "a group is named without a flag: taskvisor failed GROUP"),
        (&["put", "--priority", "high", "--", "true"], "'high' for '--priority <N>': it is no whole number"),
        (&["start", "-w", "abc"], "'abc' for '--workers <N>': it is no whole number"),
    ];
    for (typed, says) in advice {
        let output = sandbox.run(typed);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(says) && !stderr.contains("use '-- "), "no {says:?} in {stderr}");
    }
    sandbox.refused(&["job", "list", "--state", "fialed"], 2, &["did you mean 'failed'?"]);
    assert!(sandbox.run(&["put", "--jid", "a", "--", "true"]).status.success());
    assert!(sandbox.run(&["put", "--jid", "b", "--", "true"]).status.success());
    assert!(sandbox.run(&["put", "--depends", "a, b", "--", "true"]).status.success());
}

#[test]
fn every_command_takes_names_that_begin_with_a_hyphen() {
    let sandbox = Sandbox::new();
    let ok = |args: &[&str]| {
        let output = sandbox.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    ok(&["put", "-q=-queue", "--class=-Class", "--tag=-tag", "--batch=-batch", "--jid=-job", "[-1]"]);
    let job: serde_json::Value = serde_json::from_str(&ok(&["job", "show", "--json", "--", "-job"])).unwrap();
    assert_eq!([&job["queue"], &job["class"]], ["-queue", "-Class"]);
    assert_eq!(job["data"], serde_json::json!([-1]));
    ok(&["recur", "put", "--name=-name", "--every", "1h", "-q=-queue", "--", "true"]);
    ok(&["recur", "put", "--name=-other", "--every", "1h", "mail", "Report", "[2]"]);
    ok(&["recur", "put", "--name=-other", "--every", "1h", "-q=-queue", "--class=-Class", "[3]"]);
    let shown = ok(&["recur", "show", "--", "-other"]);
    assert!(shown.contains("-queue") && shown.contains("-Class") && shown.contains("[3]"), "{shown}");
    for verb in ["pause", "resume", "run", "remove"] {
        ok(&["recur", verb, "--", "-name"]);
    }
    for verb in ["pause", "resume", "stats"] {
        ok(&["queue", verb, "--", "-queue"]);
    }
    ok(&["batch", "show", "--", "-batch"]);
    for filter in ["--queue=-queue", "--class=-Class", "--tag=-tag", "--batch=-batch"] {
        assert!(ok(&["job", "list", filter]).contains("-job"), "{filter}");
    }
    ok(&["job", "priority", "--", "-job", "-5"]);
    for verb in ["cancel", "retry", "cancel", "discard"] {
        ok(&["job", verb, "--", "-job"]);
    }
    let too_many = ["recur", "put", "--name=-n", "--every", "1h", "mail", "Report", "[2]", "[3]"];
    sandbox.refused(&too_many, 2, &["too many words"]);
}
