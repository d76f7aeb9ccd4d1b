//! Volumes of a container: mounted by root for whoever runs in it.

use super::*;

/// In a container of its own: a volume with this mode, and /tmp as another one; then a supervisor of user 12345 there.
const CONTAINER: &str = r#"
set -eu
exec 9<"$0"
mount -t tmpfs -o mode=0777 volume /tmp
mkdir -p "$VOLUME"
mount -t tmpfs -o mode="$MODE",gid=12345 volume "$VOLUME"
touch /tmp/taskvisor
mount --bind /proc/self/fd/9 /tmp/taskvisor
exec 9<&-
cd /
exec setpriv --reuid 12345 --regid 12345 --clear-groups env -i PATH="$PATH" \
    TASKVISOR_STATE_DIR="$VOLUME" TASKVISOR_RUN_DIR="$1" TASKVISOR_WITHOUT=cgroup sh -euc '
        /tmp/taskvisor put -- sh -c "echo done" >/tmp/jid
        /tmp/taskvisor start -w 1 --burst >&2
        read -r jid </tmp/jid
        /tmp/taskvisor job logs "$jid"
        stat -c "%a %u %n" "$TASKVISOR_STATE_DIR"/taskvisor*'
"#;

/// What the supervisor in such a container says. `run` is its run directory, in a container where $VOLUME is a volume.
fn in_container(mode: &str, run: &str) -> (String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("others may pass");
    let volume = dir.path().join("volume");
    let run = run.replace("VOLUME", volume.to_str().expect("text"));
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c", CONTAINER]);
    command.arg(env!("CARGO_BIN_EXE_taskvisor")).arg(run).env("MODE", mode).env("VOLUME", &volume);
    let output = command.output().expect("unshare");
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).expect("text").replace(volume.to_str().expect("text"), "VOLUME")
    };
    (text(output.stdout), text(output.stderr))
}

#[test]
fn volumes_of_root_that_anybody_may_write_get_a_private_directory() {
    if !is_root() {
        return missing("root");
    }
    let kept = "done\n700 12345 VOLUME/taskvisor-12345\n";
    // An emptyDir, one with fsGroup, and a disk with fsGroup.
    for mode in ["0777", "2777", "2775"] {
        let (said, wrong) = in_container(mode, "/tmp/taskvisor-12345");
        assert_eq!(said.replace("2700", "700"), kept, "{mode}: {wrong}");
    }
    // What is below a volume is as good, and so is a volume for the socket.
    let (said, wrong) = in_container("0777", "VOLUME/run");
    assert_eq!(said, kept, "{wrong}");
    // One that only root may write is refused as ever.
    let (said, wrong) = in_container("0755", "/tmp/taskvisor-12345");
    assert!(said.is_empty() && wrong.contains("VOLUME belongs to uid 0, not to uid 12345"), "{said}{wrong}");
}

/// As root in such a container, with a job of another user that tries to take the directory of the state away.
const OF_ROOT: &str = r#"
set -eu
mount -t tmpfs -o mode=0777 volume "$VOLUME"
cd /
exec env -i PATH="$PATH" TASKVISOR_STATE_DIR="$VOLUME" TASKVISOR_RUN_DIR="$VOLUME/run" TASKVISOR_WITHOUT=cgroup \
    VOLUME="$VOLUME" sh -euc '
        "$0" put -- sh -c "mv $VOLUME/taskvisor-0 $VOLUME/away 2>/dev/null && echo taken || echo kept" >/dev/null
        chmod -t "$VOLUME"
        "$0" start -c "$1" -w 1 --burst >&2
        cat "$VOLUME"/*/logs/*/*.log
        stat -c "%a" "$VOLUME"' "$0" "$1"
"#;

#[test]
fn job_of_another_user_cannot_take_the_state_in_a_volume_away() {
    if !is_root() {
        return missing("root");
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("others may pass");
    let (volume, settings) = (dir.path().join("volume"), dir.path().join("taskvisor.yaml"));
    fs::create_dir(&volume).expect("a directory");
    fs::write(&settings, "pools: [{user: '12345', group: '12345'}]\n").expect("settings");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c", OF_ROOT]);
    command.arg(env!("CARGO_BIN_EXE_taskvisor")).arg(&settings).env("VOLUME", &volume);
    let output = command.output().expect("unshare");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&output.stdout), "kept\n1777\n", "{}", text(&output.stderr));
}
