//! What is taken from under a running supervisor: the files of its run directory, inotify.

use super::*;

/// Starts with a settings file of one pool.
fn start(sandbox: &Sandbox) -> sandbox::Running<'_> {
    let file = sandbox.work("settings.yaml");
    fs::write(&file, "pools: [{name: kept, workers: 2}]\n").expect("settings");
    sandbox.start(&["-c", file.to_str().expect("text")])
}

#[test]
fn removed_socket_is_made_again() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = start(&sandbox);
    let socket = sandbox.path("run").join("ctl.sock");
    fs::remove_file(&socket).expect("rm");
    wait_until("it answers again", || is_up(&sandbox.status()));
    assert_eq!(sandbox::mode(&socket), 0o600);
    assert!(sandbox.stderr().contains("somebody has removed the API's socket; it is made again"));
    // A file of somebody else stays.
    fs::remove_file(&socket).expect("rm");
    fs::write(&socket, "mine").expect("another file");
    stays(Duration::from_secs(4), "it is left alone", || {
        fs::read_to_string(&socket).is_ok_and(|text| text == "mine")
    });
}

#[test]
fn supervisor_after_a_sweep_of_the_run_directory_has_settings_and_changes() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = start(&sandbox);
    sandbox.ok(&["scale", "kept", "3"]);
    let supervisor = both(&sandbox)[1];
    fs::remove_file(sandbox.work("settings.yaml")).expect("rm");
    fs::remove_dir_all(sandbox.path("run")).expect("rm");
    kill(supervisor, "KILL");
    let mut last = Value::Null;
    wait_until("the next one is up", || {
        last = sandbox.status();
        last["supervisor_restarts"] == 1 && is_up(&last)
    });
    assert_eq!((&last["pools"][0]["name"], slots(&last).len()), (&"kept".into(), 3), "{last}");
    assert_works(&sandbox);
    running.signal("TERM");
    assert!(running.wait().success(), "{}", sandbox.stderr());
}

#[test]
fn run_directory_that_is_swept_again_and_again_is_whole_each_time() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = start(&sandbox);
    let note = fs::read(sandbox.path("run/store")).expect("where the jobs are kept");
    for _ in 0..3 {
        // The supervisor makes its socket again while the others are being removed: then the directory is not empty yet.
        wait_until("it is swept", || fs::remove_dir_all(sandbox.path("run")).is_ok());
        wait_until("it is there again", || is_up(&sandbox.status()));
        wait_until("its note, too", || fs::read(sandbox.path("run/store")).is_ok_and(|again| again == note));
        assert_eq!(sandbox::mode(&sandbox.path("run/lock")), 0o600);
    }
    // The lock that the supervisor made ended with it; the next one makes its own.
    kill(both(&sandbox)[1], "KILL");
    wait_until("the next supervisor is up", || {
        let last = sandbox.status();
        last["supervisor_restarts"] == 1 && is_up(&last)
    });
    // Nobody else takes its place, and `stop` waits for its end.
    let other = sandbox.path("other");
    let (code, said) = sandbox.refused(&["--state-dir", other.to_str().expect("text"), "start", "-w", "1"]);
    assert!(code == 69 && said.contains("uses") && said.contains("already"), "{code}: {said}");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
}

#[test]
fn state_directory_whose_lock_was_removed_has_one_supervisor_all_the_same() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = start(&sandbox);
    let (state, other) = (sandbox.path("state"), sandbox.path("other"));
    let signed = fs::read_to_string(state.join("lock")).expect("the lock");
    fs::remove_file(state.join("lock")).expect("rm");
    // Its store is the same, and its leases would be taken for those of a dead process.
    let (code, said) = sandbox.refused(&["--run-dir", other.to_str().expect("text"), "start", "-w", "1"]);
    let names_it = format!("a supervisor uses {} already", state.display());
    assert!(code == 69 && said.contains(&names_it), "{code}: {said}");
    // The next start finds by it what this one leaves.
    wait_until("it is put back", || {
        fs::read_to_string(state.join("lock")).is_ok_and(|again| again == signed)
    });
    assert_works(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    assert!(sandbox.start(&["-w", "1"]).child.id() > 0, "the next one starts");
}

/// Those who serve users, or a token, may be away when a supervisor dies.
#[test]
fn keeper_waits_for_a_token_file_that_is_away() {
    let sandbox = Sandbox::new(Setting::Plain);
    let token = sandbox.work("token");
    let file = |text: &str| {
        fs::write(&token, text).expect("a token");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("chmod");
        if is_root() {
            chown(&token, Some(sandbox::plain_uid()), None).expect("chown");
        }
    };
    file("0123456789abcdefghijklmnop");
    let text =
        format!("api: {{listen: '127.0.0.1:0', token_file: {}}}\npools: [{{workers: 1}}]\n", token.display());
    let settings = sandbox.work("settings.yaml");
    fs::write(&settings, text).expect("settings");
    let _running = sandbox.start(&["-c", settings.to_str().expect("text")]);
    fs::remove_file(&token).expect("rm");
    kill(both(&sandbox)[1], "KILL");
    wait_until("it has tried more often than crashes are forgiven", || {
        sandbox.stderr().matches("the new supervisor could not start (exit code 78)").count() > 5
    });
    file("0123456789abcdefghijklmnop");
    wait_until("it is up", || is_up(&sandbox.status()));
    assert_works(&sandbox);
}

#[test]
fn store_without_inotify_is_used_all_the_same_and_says_so() {
    let sandbox = Sandbox::new(Setting::Root);
    const NONE: &str = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
    let under = ["unshare", "--user", "--map-root-user", "sh", "-c", NONE, "sh"];
    if !Command::new(under[0]).args(&under[1..]).arg("true").status().expect("unshare").success() {
        return missing("user namespaces");
    }
    let _running = sandbox.start_under(&under, &["-w", "1"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    assert!(sandbox.reasons().contains("inotify is refused (EMFILE"), "{}", sandbox.reasons());
    assert_works(&sandbox);
    // A process that does not find the supervisor puts into the store itself.
    let put =
        sandbox.command(&["put", "--", "true"]).env("TASKVISOR_RUN_DIR", sandbox.path("elsewhere")).output();
    let put = put.expect("put");
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    assert_completes(&sandbox, String::from_utf8_lossy(&put.stdout).trim());
}

#[test]
fn directory_where_start_was_typed_is_free_and_relative_paths_go_on_from_it() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    sandbox.script("handler", "#!/bin/sh\npwd > went\n");
    let settings = |workers: u32| {
        let text = format!("pools: [{{name: own, run: [./handler], workers: {workers}}}]\n");
        fs::write(sandbox.work("settings.yaml"), text).expect("settings");
    };
    settings(1);
    let _running = sandbox.start(&["-c", "settings.yaml"]);
    let is_free = |seen: &sandbox::Seen| {
        fs::read_link(format!("/proc/{}/cwd", seen.pid)).is_ok_and(|dir| dir == Path::new("/"))
    };
    assert!(sandbox.processes().iter().all(is_free), "{:?}", sandbox.processes());
    settings(2);
    sandbox.ok(&["reload"]);
    wait_until("the second slot is up", || slots(&sandbox.status()).len() == 2 && is_up(&sandbox.status()));
    kill(both(&sandbox)[1], "KILL");
    wait_until("the next supervisor is up", || {
        let last = sandbox.status();
        last["supervisor_restarts"] == 1 && is_up(&last)
    });
    let jid = sandbox.ok(&["put", "default", "work"]).trim().to_owned();
    assert_completes(&sandbox, &jid);
    let went = fs::read_to_string(sandbox.work("went")).expect("the handler's directory");
    assert_eq!(Path::new(went.trim()), fs::canonicalize(sandbox.path("work")).expect("work"));
}
