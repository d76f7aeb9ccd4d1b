//! What the host, the settings or a stranger breaks before a job begins is not charged to the job.

use super::*;

/// Starts four slots of a program, in a directory.
fn start_run<'a>(sandbox: &'a Sandbox, program: &str, cwd: &Path) -> sandbox::Running<'a> {
    let file = sandbox.work("settings.yaml");
    let cwd = cwd.display();
    let text = format!("pools: [{{name: default, workers: 4, run: {program}, retries: 5, cwd: {cwd}}}]\n");
    fs::write(&file, text).expect("settings");
    let running = sandbox.start(&["-c", &file.display().to_string()]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    running
}

/// Takes a thing away that all jobs of the pool need, puts many jobs, and brings it back when `status` names it.
fn no_job_fails_while_it_is_away(sandbox: &Sandbox, thing: &Path, named: &str) {
    const JOBS: usize = 60;
    let away = thing.with_extension("away");
    fs::rename(thing, &away).expect("it goes away");
    let lines = sandbox.work("lines");
    fs::write(&lines, "1\n".repeat(JOBS)).expect("data");
    let mut put = sandbox.command(&["put", "--lines", "default", "any"]);
    let put = put.stdin(fs::File::open(&lines).expect("data")).output().expect("put");
    assert!(put.status.success(), "{put:?}");
    wait_until("status names what is away", || sandbox.reasons().contains(named));
    assert!(!sandbox.reasons().contains("before it was ready"), "{}", sandbox.reasons());
    let jids: Vec<String> = String::from_utf8(put.stdout).expect("ids").lines().map(str::to_owned).collect();
    let why = || sandbox.ok(&["why", "pool", "default"]);
    wait_until("why names it too", || why().contains(named));
    fs::rename(&away, thing).expect("it is back");
    for jid in &jids {
        assert_completes(sandbox, jid);
    }
    assert_eq!(jids.len(), JOBS);
    sandbox.wait_healthy();
    assert_calm(sandbox);
}

#[test]
fn no_job_fails_while_the_program_of_its_pool_is_away() {
    let sandbox = Sandbox::new(Setting::Plain);
    let program = sandbox.script("program", "#!/bin/sh\nexec cat\n");
    let _running = start_run(&sandbox, &program, &sandbox.work(""));
    no_job_fails_while_it_is_away(&sandbox, Path::new(&program), &format!("no program '{program}'"));
}

#[test]
fn no_job_fails_while_the_directory_of_its_pool_is_away() {
    let sandbox = Sandbox::new(Setting::Plain);
    let cwd = sandbox.work("here");
    fs::create_dir(&cwd).expect("mkdir");
    let _running = start_run(&sandbox, "/bin/cat", &cwd);
    let named = format!("failed to change to '{}'", cwd.display());
    no_job_fails_while_it_is_away(&sandbox, &cwd, &named);
}

#[test]
fn no_job_fails_while_its_own_directory_cannot_be_made() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = sandbox.work("settings.yaml");
    fs::write(&file, "pools: [{name: default, workers: 2, run: [/bin/cat], sandbox: true, retries: 0}]\n")
        .expect("settings");
    let _running = sandbox.start(&["-c", &file.display().to_string()]);
    let root = sandbox.path("state/sandbox");
    fs::remove_dir_all(&root).ok();
    fs::write(&root, "").expect("a file in its place");
    let jids = [(); 6].map(|()| sandbox.ok(&["put", "default", "any", "1"]).trim().to_owned());
    wait_until("status names it", || sandbox.reasons().contains("failed to make a directory for it: "));
    assert!(sandbox.ok(&["why", "pool", "default"]).contains("failed to make a directory for it: "));
    fs::remove_file(&root).expect("it is removed");
    for jid in &jids {
        assert_completes(&sandbox, jid);
    }
    sandbox.wait_healthy();
    assert_calm(&sandbox);
}

/// The account is back after more deaths of the supervisor than end a keeper that gives up.
#[test]
fn supervisor_that_starts_again_waits_for_the_user_of_a_pool() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let accounts = sandbox.path("passwd");
    let all = fs::read_to_string("/etc/passwd").expect("accounts");
    let with = format!("{all}ghost:x:61234:61234::/:/bin/sh\n");
    fs::write(&accounts, &with).expect("accounts");
    fs::write(sandbox.work("pool.yaml"), "pools: [{name: a, workers: 1, user: ghost}]").expect("settings");
    let mount = format!("mount --bind {} /etc/passwd && exec \"$@\"", accounts.display());
    let mut running = sandbox.start_under(&["unshare", "-m", "sh", "-c", &mount, "sh"], &["-c", "pool.yaml"]);
    wait_until("it is up", || sandbox.run(&["status"]).status.success());
    let [keeper, supervisor] = both(&sandbox);
    fs::write(&accounts, &all).expect("the account is gone");
    kill(supervisor, "KILL");
    let named = || sandbox.stderr().matches("this machine knows no user 'ghost'").count();
    wait_within(Duration::from_secs(60), "it was tried again and again", || named() >= 6);
    assert!(alive(keeper), "{}", sandbox.stderr());
    fs::write(&accounts, &with).expect("the account is back");
    wait_within(Duration::from_secs(60), "it is up again", || sandbox.run(&["status"]).status.success());
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn program_that_is_being_written_is_waited_for_and_then_tried_again() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let program = sandbox.work("program");
    fs::copy("/bin/true", &program).expect("cp");
    let writer = fs::File::options().append(true).open(&program).expect("a writer");
    let program = program.display().to_string();
    let jid = sandbox.ok(&["put", "--retries", "5", "--", &program]);
    wait_until("the job is tried", || sandbox.state(jid.trim()) != "waiting");
    drop(writer);
    sandbox.run(&["job", "wait", jid.trim(), "--timeout", "40s"]);
    let job = sandbox.job(jid.trim());
    assert_eq!((&job["state"], &job["crashes"]), (&"complete".into(), &0.into()), "{job}");
}

#[test]
fn job_whose_program_never_began_is_not_charged_for_the_kill_of_its_slot() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let spawner = sandbox.one("tv-spawner");
    kill(spawner, "STOP");
    let jid = sandbox.put(&["touch", "begun"]);
    wait_until("the slot has the job", || sandbox.state(&jid) == "running");
    kill(spawner, "KILL");
    let job = assert_completes(&sandbox, &jid);
    assert_eq!((&job["crashes"], sandbox.work("begun").exists()), (&0.into(), true), "{job}");
}

#[test]
fn stopped_spawner_is_replaced_though_no_order_tells_the_keeper_of_the_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    // Such a job has no self-fence that would be set for it.
    let file = sandbox.work("settings.yaml");
    fs::write(&file, "pools: [{name: default, workers: 1, when_cut_off: carry_on}]\n").expect("settings");
    let _running = sandbox.start(&["-c", &file.display().to_string()]);
    for _ in 0..3 {
        let spawner = sandbox.one("tv-spawner");
        kill(spawner, "STOP");
        let job = assert_completes(&sandbox, &sandbox.put(&["true"]));
        assert_eq!((&job["crashes"], &job["attempt"]), (&0.into(), &1.into()), "{job}");
        wait_until("it is dead", || !alive(spawner));
    }
    assert_calm(&sandbox);
}

#[test]
fn program_whose_execution_hangs_is_starting_holds_up_no_other_and_can_be_canceled() {
    let sandbox = Sandbox::new(Setting::Root);
    let program = sandbox.work("hangs");
    fs::copy("/bin/true", &program).expect("a program");
    let _running = sandbox.start(&["-w", "2"]);
    let Some(hang) = Hang::on(&program) else { return missing("fanotify") };
    let first = sandbox.put(&["./hangs"]);
    let starting = || slots(&sandbox.status()).into_iter().find(|slot| slot["state"] == "starting").cloned();
    wait_until("it is starting", || starting().is_some());
    let slot = starting().expect("it hangs");
    assert_eq!(slot["jobs"][0]["id"], first.as_str(), "{slot}");
    let why = sandbox.ok(&["why", "slot", slot["slot"].as_str().expect("a name")]);
    assert!(why.contains("has been asked to execute its program and has not done it yet"), "{why}");
    assert_works(&sandbox);
    sandbox.ok(&["job", "cancel", "--wait", &first]);
    assert_eq!(sandbox.state(&first), "canceled");
    let second = sandbox.put(&["./hangs"]);
    wait_until("it is starting, too", || starting().is_some());
    drop(hang);
    assert_completes(&sandbox, &second);
    sandbox.wait_healthy();
}

#[test]
fn burst_ends_with_an_error_when_the_program_of_its_pool_stays_away() {
    let sandbox = Sandbox::new(Setting::Plain);
    let program = sandbox.script("program", "#!/bin/sh\nrm \"$0\"\n");
    let file = sandbox.work("settings.yaml");
    let text = format!("pools: [{{name: default, workers: 1, run: {program}}}]\n");
    fs::write(&file, text).expect("settings");
    let jids = [(); 2].map(|()| sandbox.ok(&["put", "default", "any"]).trim().to_owned());
    let mut running = sandbox.start_raw(&["--burst", "-c", &file.display().to_string()]);
    assert_eq!(running.wait().code(), Some(1), "{}", sandbox.stderr());
    let said = sandbox.stderr();
    assert!(said.contains(&format!("a job could not be begun: no program '{program}'")), "{said}");
    let mut states = jids.map(|jid| sandbox.state(&jid));
    states.sort();
    assert!(states[0] == "complete" && ["waiting", "delayed"].contains(&states[1].as_str()), "{states:?}");
}
