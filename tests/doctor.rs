//! `doctor` on machines that lack something; it leaves nothing behind.
#![allow(missing_docs)]

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::process::{Command, Output};

use sandbox::{Sandbox, Setting, in_all_settings, is_root};
use serde_json::Value;

/// Runs the doctor behind a command prefix and returns its findings and exit code.
fn asked(sandbox: &Sandbox, before: &[&str]) -> (Value, Option<i32>) {
    let own = sandbox.command(&["doctor", "--json"]);
    let line = before.iter().map(std::ffi::OsStr::new).chain([own.get_program()]).chain(own.get_args());
    let line: Vec<_> = line.collect();
    let mut command = Command::new(line[0]);
    command.args(&line[1..]);
    for (name, value) in own.get_envs() {
        value.map(|value| command.env(name, value));
    }
    read(&command.output().expect("doctor"))
}

fn read(output: &Output) -> (Value, Option<i32>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{stderr}"));
    (value, output.status.code())
}

/// The check with this name.
fn check<'a>(findings: &'a Value, name: &str) -> &'a Value {
    let checks = findings["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("nothing of {name}"))
}

#[test]
fn doctor_finds_a_working_machine_well_and_leaves_no_trace() {
    in_all_settings(|sandbox| {
        let child = sandbox.command(&["doctor", "--json"]).stdout(std::process::Stdio::piped()).spawn();
        let child = child.expect("doctor");
        let pid = child.id();
        let (findings, code) = read(&child.wait_with_output().expect("its end"));
        assert_eq!(
            (code, &findings["well"], &findings["schema"]),
            (Some(0), &true.into(), &"taskvisor.doctor/1".into())
        );
        let cgroup = check(&findings, "cgroup v2")["state"] == "ok";
        assert!(!cgroup || sandbox.setting == Setting::RootCgroup, "{findings}");
        for place in ["state", "run"] {
            assert!(!sandbox.path(place).exists(), "{place} was made");
        }
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let mut entries = fs::read_dir(mount).into_iter().flatten().flatten();
            let left = entries
                .any(|entry| entry.file_name().to_string_lossy().starts_with(&format!("taskvisor-{pid}-")));
            assert!(!left, "a cgroup is left in {mount}");
        }
        sandbox.assert_nothing_left();
    });
}

#[test]
fn doctor_runs_beside_a_supervisor_without_disturbing_it() {
    let sandbox = Sandbox::new(Setting::Root);
    if !is_root() {
        return sandbox::missing("root");
    }
    let _running = sandbox.start(&["-w", "1"]);
    let text = sandbox.ok(&["doctor"]);
    assert!(text.lines().last().is_some_and(|line| line.ends_with(" 0 bad")), "{text}");
    sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
}

#[test]
fn doctor_exits_1_when_the_machine_has_no_proof_of_death() {
    let sandbox = Sandbox::new(Setting::Plain);
    let (findings, code) = asked(&sandbox, &["env", "TASKVISOR_WITHOUT=cgroup,subreaper"]);
    assert_eq!((code, &findings["well"]), (Some(1), &false.into()));
    let check = check(&findings, "subreaper");
    assert_eq!(
        (&check["state"], &check["found"]),
        (&"bad".into(), &"switched off by TASKVISOR_WITHOUT".into())
    );
    assert!(check["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()));
}

#[test]
fn doctor_reports_too_few_descriptors_as_bad() {
    let sandbox = Sandbox::new(Setting::Plain);
    let (findings, code) = asked(&sandbox, &["prlimit", "--nofile=30:30"]);
    assert_eq!((code, &check(&findings, "descriptors")["state"]), (Some(1), &"bad".into()));
}

#[test]
fn doctor_reports_a_store_on_tmpfs_as_lost_at_reboot() {
    let sandbox = Sandbox::new(Setting::Plain);
    let output = sandbox.run(&["doctor", "--json", "--state-dir", "/dev/shm/taskvisor-doctor"]);
    let (findings, code) = read(&output);
    let store = check(&findings, "store");
    assert_eq!((code, &store["state"]), (Some(0), &"less".into()), "{store}");
    assert!(store["found"].as_str().is_some_and(|found| found.ends_with("on tmpfs")), "{store}");
    let (findings, _) = read(&sandbox.run(&["doctor", "--json", "--broker", "memory:"]));
    assert_eq!(check(&findings, "store")["state"], "less");
}

/// Runs the doctor below a shell that is process 1 of its own pid namespace.
fn below_a_shell(setting: Setting, proc: &str) -> Option<Value> {
    if !is_root() {
        sandbox::missing("root");
        return None;
    }
    let script = format!("mount -t proc -o {proc} proc /proc && \"$@\"; exit $?");
    let before = ["unshare", "--pid", "--fork", "--mount", "bash", "-c", &script, "bash"];
    let (findings, code) = asked(&Sandbox::new(setting), &before);
    assert_eq!(code, Some(0), "{findings}");
    Some(findings)
}

#[test]
fn a_shell_as_process_1_is_reported() {
    let Some(findings) = below_a_shell(Setting::Root, "rw") else { return };
    let check = check(&findings, "process 1");
    assert_eq!((&check["state"], &check["found"]), (&"less".into(), &"bash, a shell".into()));
}

#[test]
fn doctor_reports_hidepid_to_plain_users_only() {
    let Some(findings) = below_a_shell(Setting::Plain, "hidepid=2") else { return };
    let hidden = check(&findings, "/proc");
    assert_eq!((&hidden["state"], &hidden["found"]), (&"less".into(), &"hidepid=invisible".into()));
    let Some(findings) = below_a_shell(Setting::Root, "hidepid=2") else { return };
    assert_eq!(check(&findings, "/proc")["state"], "ok");
}

/// Has these system calls fail with EPERM, as an old seccomp profile does, and executes the rest of the line.
const SECCOMP: &str = "import ctypes, os, struct, sys
calls = [int(number) for number in sys.argv[1].split(',')]
op = lambda code, yes, no, value: struct.pack('HBBI', code, yes, no, value)
code = op(0x20, 0, 0, 0)
for left, number in zip(range(len(calls), 0, -1), calls): code += op(0x15, left, 0, number)
code += op(0x06, 0, 0, 0x7fff0000) + op(0x06, 0, 0, 0x00050001)
filters = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(filters))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
os.execvp(sys.argv[2], sys.argv[2:])";

/// What the commands print on stderr behind that prefix, with their exit codes.
fn refused_behind(sandbox: &Sandbox, before: &[&str], args: &[&str]) -> (Option<i32>, String) {
    let own = sandbox.command(args);
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(own.get_program()).args(own.get_args());
    for (name, value) in own.get_envs() {
        value.map(|value| command.env(name, value));
    }
    let output = command.current_dir(sandbox.path("work")).output().expect("it runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said)
}

#[test]
fn old_seccomp_profile_is_named_by_its_system_call_by_doctor_start_and_trial() {
    let sandbox = Sandbox::new(Setting::Plain);
    for (number, call) in [
        (libc::SYS_signalfd4, "signalfd4"),
        (libc::SYS_timerfd_create, "timerfd_create"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_clone3, "clone3"),
    ] {
        let before = ["python3", "-c", SECCOMP, &number.to_string()];
        let (code, said) = refused_behind(&sandbox, &before, &["doctor"]);
        assert!(said.contains(&format!("the system call {call}")) && said.contains("seccomp"), "{said}");
        assert_eq!(code, Some(1), "{said}");
        for args in [&["start", "-w", "1"][..], &["start", "-w", "1", "--check"]] {
            let (code, said) = refused_behind(&sandbox, &before, args);
            assert_eq!(code, Some(77), "{said}");
            assert!(said.contains(&format!("the system call {call}")) && said.contains("seccomp"), "{said}");
        }
    }
}

#[test]
fn proc_without_its_files_is_named_with_the_path() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mount = "mount -t proc -o subset=pid proc /proc 2>/dev/null || exit 9; exec \"$@\"";
    let before = ["unshare", "-m", "sh", "-c", mount, "sh"];
    let (code, said) = refused_behind(&sandbox, &before, &["doctor"]);
    if !matches!(code, Some(0 | 1)) {
        return sandbox::missing("mount namespace");
    }
    let words = ["cannot open /proc/sys/kernel/random/boot_id", "without subset=pid"];
    assert!(code == Some(1) && words.iter().all(|words| said.contains(words)), "{said}");
    let (code, said) = refused_behind(&sandbox, &before, &["start", "-w", "1"]);
    assert!(code == Some(74) && words.iter().all(|words| said.contains(words)), "{said}");
}

#[test]
fn trial_of_a_start_says_what_works_and_what_does_not_and_leaves_nothing() {
    let sandbox = Sandbox::new(Setting::Plain);
    assert_eq!(sandbox.ok(&["start", "-w", "4", "--check"]), "ok    pool default\n");
    let broken = ["start", "-w", "4", "--check", "--", "sh", "-c", "echo no module >&2; exit 3"];
    let output = sandbox.run(&broken);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("BAD   pool default: exit 3") && said.contains("no module"), "{said}");
    for place in ["state", "run"] {
        assert!(!sandbox.path(place).exists(), "{place} was made");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn trial_runs_beside_the_supervisor_with_the_same_settings() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    assert_eq!(sandbox.ok(&["start", "-w", "1", "--check"]), "ok    pool default\n");
    sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
}
