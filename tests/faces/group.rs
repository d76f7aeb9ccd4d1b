//! The API socket for the members of a group.

use std::os::unix::fs::chown;
use std::process::{Command, Output};

use super::*;

/// A group without members, and two uids that no user has.
pub(super) const GROUP: u32 = 64_400;
pub(super) const MEMBER: u32 = 64_500;
pub(super) const OTHER: u32 = 64_501;

/// A command run as this user, with a primary group and supplementary groups.
pub(super) fn as_user(uid: u32, gid: u32, more: &[u32]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
    let groups: Vec<String> = more.iter().map(u32::to_string).collect();
    match groups.is_empty() {
        true => command.arg("--clear-groups"),
        false => command.arg(format!("--groups={}", groups.join(","))),
    };
    command
}

/// A taskvisor command with this run directory, by a user without a state directory.
pub(super) fn taskvisor(mut command: Command, run: &std::path::Path, args: &[&str]) -> Output {
    command.arg(env!("CARGO_BIN_EXE_taskvisor")).args(args).current_dir("/");
    command.env_clear().env("TASKVISOR_RUN_DIR", run).env("HOME", "/nonexistent").output().unwrap()
}

pub(super) fn settings(sandbox: &Sandbox, group: &str) -> String {
    fs::write(sandbox.work("group.yaml"), format!("socket_group: {group}\n")).unwrap();
    sandbox.work("group.yaml").display().to_string()
}

fn python(mut command: Command, socket: &std::path::Path) -> Output {
    let text = "import sys; from taskvisor.client import api_socket; api_socket.connect(sys.argv[1]); print('heard')";
    command.args(["python3", "-c", text]).arg(socket).current_dir("/").env_clear();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    command.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
}

#[test]
fn only_group_members_may_use_the_socket_whatever_its_mode() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1", "-c", &settings(&sandbox, &GROUP.to_string())]);
    let (run, socket) = (sandbox.path("run"), sandbox.path("run/ctl.sock"));
    assert_eq!((sandbox::mode(&run), sandbox::mode(&socket)), (0o710, 0o660));
    for (gid, more) in [(GROUP, vec![]), (MEMBER, vec![7, GROUP])] {
        let put = taskvisor(as_user(MEMBER, gid, &more), &run, &["put", "--", "true"]);
        assert!(put.status.success(), "{}", text(&put.stderr));
        let jid = text(&put.stdout);
        let print = ["put", "--", "sh", "-c", "echo out; echo err >&2"];
        let printing = text(&taskvisor(as_user(MEMBER, gid, &more), &run, &print).stdout);
        let logs = ["job", "logs", "-f", "--stream", "stderr", printing.trim()];
        let logs = taskvisor(as_user(MEMBER, gid, &more), &run, &logs);
        assert_eq!((text(&logs.stdout), text(&logs.stderr)), ("err\n".into(), String::new()));
        let shown = taskvisor(as_user(MEMBER, gid, &more), &run, &["job", "wait", jid.trim()]);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        assert!(sandbox.ok(&["job", "show", jid.trim()]).contains(&format!("put by uid {MEMBER}")));
        let heard = python(as_user(MEMBER, gid, &more), &socket);
        assert_eq!(text(&heard.stdout), "heard\n", "{}", text(&heard.stderr));
    }
    let refused = |why: &str| {
        let put = taskvisor(as_user(OTHER, OTHER, &[]), &run, &["put", "--", "true"]);
        assert!(!put.status.success() && text(&put.stderr).contains(why), "{}", text(&put.stderr));
    };
    refused("ermission denied");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    refused(&format!("this socket is not for uid {OTHER}"));
}

#[test]
fn group_member_trusts_a_run_directory_only_below_a_directory_of_root() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Plain);
    let owner = fs::metadata(sandbox.path("work")).unwrap();
    let given = tempfile::Builder::new().prefix("taskvisor-test-").tempdir_in("/run").unwrap();
    let taken = sandbox.path("run");
    fs::create_dir(&taken).unwrap();
    for dir in [given.path(), &taken] {
        chown(dir, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    for (run, is_trusted) in [(given.path(), true), (taken.as_path(), false)] {
        let file = settings(&sandbox, &owner.gid().to_string());
        let mut running = sandbox.start_with(&["-w", "1", "-c", &file], |command| {
            command.env("TASKVISOR_RUN_DIR", run);
        });
        let socket = run.join("ctl.sock");
        wait_until("it listens", || UnixStream::connect(&socket).is_ok());
        let member = || as_user(MEMBER, MEMBER, &[owner.gid()]);
        wait_until("its socket is open to the group", || sandbox::mode(&socket) == 0o660);
        let put = taskvisor(member(), run, &["put", "--", "true"]);
        assert_eq!(put.status.success(), is_trusted, "{}", text(&put.stderr));
        let heard = python(member(), &socket);
        assert_eq!(heard.status.success(), is_trusted, "{}", text(&heard.stderr));
        if !is_trusted {
            for said in [text(&put.stderr), text(&heard.stderr)] {
                assert!(said.contains(&format!("belongs to uid {}", owner.uid())), "{said}");
            }
        }
        running.signal("TERM");
        running.wait();
        // A spool there is the same trap.
        let put = taskvisor(member(), run, &["put", "--", "true"]);
        let said = text(&put.stderr);
        assert_eq!(said.contains(&format!("belongs to uid {}", owner.uid())), !is_trusted, "{said}");
    }
}

#[test]
fn check_refuses_an_unknown_group_by_name() {
    let sandbox = Sandbox::new(Setting::Plain);
    let (code, said) = sandbox.refused(&["check", "-c", &settings(&sandbox, "no-such-group")]);
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("group.yaml:1") && said.contains("knows no group 'no-such-group'"), "{said}");
}
