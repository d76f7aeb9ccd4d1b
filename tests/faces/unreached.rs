//! A supervisor whose socket is taken from it: the TCP port and the log say so, in the same words, until it is back.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use super::tcp::{TOKEN, port, with_port};
use super::*;

/// The output of a command that asks by TCP.
fn by_url(sandbox: &Sandbox, args: &[&str]) -> String {
    let url = format!("http://{}", port(sandbox));
    let mut command = sandbox.command(args);
    let output =
        command.env("TASKVISOR_URL", url).env("TASKVISOR_TOKEN_FILE", sandbox.work("token")).output();
    text(&output.unwrap().stdout)
}

fn get(sandbox: &Sandbox, path: &str) -> String {
    let url = format!("http://{}{path}", port(sandbox));
    let bearer = format!("authorization: Bearer {TOKEN}");
    text(&Command::new("curl").args(["-s", "-H", &bearer, &url]).output().unwrap().stdout)
}

#[test]
fn supervisor_that_no_client_reaches_says_so_by_every_way_until_its_socket_is_back() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = with_port(&sandbox, "");
    let _running = sandbox.start(&["-w", "1", "-c", &file]);
    let jid = sandbox.put(&["sleep", "1000"]);
    let (run, socket) = (sandbox.path("run"), sandbox.path("run/ctl.sock"));
    let elsewhere = tempfile::tempdir().unwrap();
    let spoilt: [(&str, &dyn Fn()); 3] = [
        ("another file is in the place of", &|| fs::write(&socket, "mine").unwrap()),
        ("another file is in the place of", &|| others_socket(&socket, elsewhere.path())),
        ("run", &|| {
            fs::remove_dir_all(&run).unwrap();
            fs::write(&run, "mine").unwrap();
        }),
    ];
    for (why, spoil) in spoilt {
        fs::remove_file(&socket).unwrap();
        spoil();
        let what = "no client reaches the API's socket: ";
        let says = |text: &str| text.split_once(what).is_some_and(|(_, how)| how.contains(why));
        let before = sandbox.stderr().len();
        wait_until("status says it", || says(&by_url(&sandbox, &["status"])));
        let told = by_url(&sandbox, &["why", "job", &jid]);
        assert!(says(&told), "{told}");
        let ready = get(&sandbox, "/readyz");
        assert!(says(&ready), "{ready}");
        let metrics = get(&sandbox, "/metrics");
        assert!(
            metrics.contains(r#"failing_seconds{what="no client reaches the API's socket"}"#),
            "{metrics}"
        );
        wait_until("the log says it", || says(&sandbox.stderr()[before..]));
        // Whoever put a file there takes it away.
        if run.is_dir() { fs::remove_file(&socket) } else { fs::remove_file(&run) }.unwrap();
        wait_until("it is reached again", || sandbox.status()["health"] == "healthy");
    }
    assert!(sandbox.stderr().contains("recovered after"), "{}", sandbox.stderr());
}

/// Puts the socket of another program there.
fn others_socket(path: &Path, dir: &Path) {
    let other = dir.join("other");
    drop(UnixListener::bind(&other).unwrap());
    fs::rename(&other, path).unwrap();
}

#[test]
fn note_of_the_store_and_lock_that_were_removed_come_back_and_no_complaint_stays() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let (note, lock) = (sandbox.path("run/store"), sandbox.path("run/lock"));
    let kept = fs::read(&note).unwrap();
    fs::remove_file(&note).unwrap();
    wait_until("the note is back", || fs::read(&note).is_ok_and(|again| again == kept));
    fs::remove_file(&lock).unwrap();
    wait_until("the lock is back", || lock.exists());
    // A directory cannot be written.
    fs::remove_file(&note).unwrap();
    fs::create_dir(&note).unwrap();
    fs::remove_file(&lock).unwrap();
    let says = || sandbox.reasons().contains("does not notice that the state directory was renamed");
    wait_until("status says it", says);
    fs::remove_dir(&note).unwrap();
    wait_until("it says so no more", || sandbox.status()["health"] == "healthy");
    assert_eq!(fs::read(&note).unwrap(), kept);
}

#[test]
fn socket_that_cannot_be_opened_to_its_clients_is_not_left_behind() {
    let sandbox = Sandbox::new(Setting::Plain);
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    // Its user is no member of this group.
    fs::write(sandbox.work("group.yaml"), "socket_group: 54321\n").unwrap();
    let file = sandbox.work("group.yaml").display().to_string();
    let (code, said) = sandbox.refused(&["start", "-w", "1", "-c", &file]);
    assert!(code != 0 && said.contains("54321"), "{code}: {said}");
    assert!(!sandbox.path("run/ctl.sock").exists(), "{said}");
}
