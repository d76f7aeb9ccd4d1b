//! Bad days of the machine, on the real binary: a disk that is full or fails, descriptors, processes and locks that run
//! out, a clock that jumps, what does not die. Each is said by name; nothing is lost; nothing spins.

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Sandbox, Setting, alive, is_root, kill, wait_until, wait_within};
use serde_json::Value;

fn status(sandbox: &Sandbox) -> Value {
    let output = sandbox.run(&["status", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn slots(status: &Value) -> Vec<&Value> {
    let pools = status["pools"].as_array().into_iter().flatten();
    pools.flat_map(|pool| pool["slots"].as_array().into_iter().flatten()).collect()
}

fn reasons(status: &Value) -> String {
    status["reasons"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}

fn wait_healthy(sandbox: &Sandbox) {
    wait_until("all is well again", || status(sandbox)["verdict"] == "healthy");
}

fn wait_up(sandbox: &Sandbox) {
    wait_until("all slots are up", || {
        let status = status(sandbox);
        let slots = slots(&status);
        !slots.is_empty() && slots.iter().all(|slot| slot["state"] == "ready" || slot["state"] == "busy")
    });
}

/// The exit code, and stderr with the sandbox's own directory as DIR.
fn said(sandbox: &Sandbox, output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.replace(&sandbox.path("").display().to_string(), "DIR/"))
}

#[track_caller]
fn assert_says(sandbox: &Sandbox, output: &Output, code: i32, words: &[&str]) {
    let (got, stderr) = said(sandbox, output);
    assert_eq!(got, Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no {word:?} in:\n{stderr}");
    }
}

/// A job that ends when the file `go` is there.
const UNTIL_GO: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done";

fn put_until_go(sandbox: &Sandbox, then: &str) -> String {
    let jid = sandbox.put(&["sh", "-c", &format!("{UNTIL_GO}; {then}")]);
    wait_until("the job runs", || sandbox.work("begun").exists());
    jid
}

fn go(sandbox: &Sandbox) {
    fs::write(sandbox.work("go"), "").expect("go");
}

/// It runs to its end and is complete, in its first attempt and without an interruption.
fn assert_completes(sandbox: &Sandbox, jid: &str) -> Value {
    sandbox.run(&["job", "wait", jid, "--timeout", "40s"]);
    let job = sandbox.job(jid);
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!((job["attempt"].as_u64(), job["interrupted"].as_u64()), (Some(1), Some(0)), "{job}");
    job
}

fn assert_works(sandbox: &Sandbox) {
    let jid = sandbox.put(&["true"]);
    assert_completes(sandbox, &jid);
}

/// CPU time used, in ticks of 10 ms.
fn cpu_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks")
}

/// The pids of keeper and supervisor.
fn both(sandbox: &Sandbox) -> [i32; 2] {
    let status = status(sandbox);
    ["keeper", "supervisor"].map(|name| status[name]["pid"].as_i64().expect("a pid") as i32)
}

/// Soon there is a second in which neither keeper nor supervisor uses a processor to speak of.
#[track_caller]
fn assert_calm(sandbox: &Sandbox) {
    let both = both(sandbox);
    let mut used = Vec::new();
    while used.len() < 5 {
        let (since, before) = (Instant::now(), both.map(cpu_ticks));
        wait_until("a second has passed", || since.elapsed() > Duration::from_secs(1));
        let after = both.map(cpu_ticks);
        used.push([after[0] - before[0], after[1] - before[1]]);
        if used.last().is_some_and(|used| used.iter().all(|ticks| *ticks < 15)) {
            return println!("calm: {used:?}");
        }
    }
    panic!("ticks used by keeper and supervisor that have nothing to do, of 100 a second: {used:?}");
}

fn skipped(why: &str) {
    println!("skipped: {why}");
}

/// A cgroup of one controller; what is left in it dies with it.
struct Cell(PathBuf);

impl Cell {
    fn new(controller: &str, name: &str) -> Option<Cell> {
        let cell = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("tv-days-{name}-{}", std::process::id()));
        (is_root() && fs::create_dir(&cell).is_ok()).then(|| Cell(cell))
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        fs::write(self.0.join("freezer.state"), "THAWED").ok();
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            kill(pid.parse().expect("a pid"), "KILL");
        }
        if !std::thread::panicking() {
            wait_until("the cgroup is empty", || fs::remove_dir(&self.0).is_ok());
        } else {
            for _ in 0..200 {
                if fs::remove_dir(&self.0).is_ok() {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    }
}

/// The library of `support/days.c`, made with the machine's C compiler.
fn shim(sandbox: &Sandbox) -> Option<String> {
    let library = sandbox.path("days.so").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/days.c");
    match Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, source]).status() {
        Ok(made) => {
            assert!(made.success(), "days.c does not compile");
            Some(library)
        }
        Err(error) => {
            skipped(&format!("no C compiler: {error}"));
            None
        }
    }
}

#[test]
fn a_full_disk_refuses_by_name_keeps_the_jobs_and_counts_the_output_it_lost() {
    if !is_root() {
        return skipped("a small disk needs root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let mount = "mkdir -m 700 \"$TASKVISOR_STATE_DIR\" && mount -t tmpfs -o size=4m,mode=700 none \"$TASKVISOR_STATE_DIR\" && exec \"$@\"";
    let running = sandbox.start_under(&["unshare", "-m", "sh", "-c", mount, "sh"], &["-w", "2"]);
    wait_up(&sandbox);
    let jid = put_until_go(
        &sandbox,
        "head -c 300000 /dev/zero | tr '\\0' x; while [ ! -e end ]; do sleep 0.02; done",
    );
    // The disk is in a mount namespace that ends with the pool.
    let disk = PathBuf::from(format!("/proc/{}/root{}", running.child.id(), sandbox.path("state").display()));
    let mut filler = fs::File::create(disk.join("filler")).expect("a filler");
    let mut room = 1 << 16;
    while room > 0 {
        match filler.write(&vec![0; room]) {
            Ok(written) if written > 0 => {}
            Ok(_) | Err(_) => room /= 2,
        }
    }
    let mut refused = None;
    wait_until("a put is refused", || {
        let output = sandbox.run(&["put", "--", "true", &"x".repeat(20_000)]);
        refused = (!output.status.success()).then_some(output);
        refused.is_some()
    });
    let refused = refused.expect("an answer");
    assert_says(&sandbox, &refused, 69, &["failed to put the job", "DIR/state/store.db", "disk is full"]);
    assert!(refused.stdout.is_empty());
    go(&sandbox);
    let mut seen = String::new();
    wait_until("the lost output is said", || {
        let status = status(&sandbox);
        seen = reasons(&status);
        status["verdict"] == "degraded" && seen.contains("No space left on device")
    });
    assert!(seen.contains(&jid) && seen.contains("dropped"), "{seen}");
    assert_calm(&sandbox);
    fs::write(sandbox.work("end"), "").expect("end");
    wait_until("the job has ended", || sandbox.job_processes().is_empty());
    drop(filler);
    fs::remove_file(disk.join("filler")).expect("space");
    let job = assert_completes(&sandbox, &jid);
    let dropped = job["forensics"]["output_dropped"].as_u64().expect("a number");
    assert!((1..=300_000).contains(&dropped), "{job}");
    let jid = sandbox.put(&["echo", "again"]);
    assert_completes(&sandbox, &jid);
    wait_healthy(&sandbox);
    drop(running);
    sandbox.assert_nothing_left();
}

#[test]
fn a_start_on_a_full_disk_is_refused_with_the_file_that_has_no_room() {
    if !is_root() {
        return skipped("a small disk needs root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    for (room, file) in [("0", "DIR/state/lock"), ("12k", "DIR/state/store.db")] {
        fs::remove_dir_all(sandbox.path("state")).ok();
        let full = format!(
            "mkdir -m 700 \"$TASKVISOR_STATE_DIR\" && mount -t tmpfs -o size=64k,mode=700 none \"$TASKVISOR_STATE_DIR\" &&
             cd \"$TASKVISOR_STATE_DIR\" && {{ truncate -s {room} room && head -c {room} /dev/zero > room
             head -c 1M /dev/zero > filler 2> /dev/null; rm room; cd /; exec \"$@\"; }}"
        );
        let mut running = sandbox.start_under(&["unshare", "-m", "sh", "-c", &full, "sh"], &["-w", "1"]);
        let status = running.wait();
        let stderr = sandbox.stderr().replace(&sandbox.path("").display().to_string(), "DIR/");
        assert!(stderr.contains(file), "{stderr}");
        assert!(stderr.contains("No space left") || stderr.contains("disk is full"), "{stderr}");
        assert!(matches!(status.code(), Some(69 | 74)), "{status}: {stderr}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn too_few_descriptors_for_all_slots_leave_the_others_working_and_name_the_limit() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start_under(&["prlimit", "--nofile=40:40"], &["-w", "16"]);
    let mut last = Value::Null;
    wait_until("the limit is named", || {
        last = status(&sandbox);
        reasons(&last).contains("EMFILE")
    });
    assert_eq!(last["verdict"], "degraded", "{last}");
    assert_eq!(last["supervisor_restarts"], 0, "{last}");
    assert!(slots(&last).iter().any(|slot| slot["state"] == "ready"), "{last}");
    assert!(slots(&last).iter().any(|slot| slot["state"] == "down"), "{last}");
    let jids: Vec<String> = (0..20).map(|_| sandbox.put(&["sh", "-c", "echo out; echo err >&2"])).collect();
    for jid in &jids {
        let job = assert_completes(&sandbox, jid);
        assert_eq!(job["forensics"]["stderr_tail"], "err\n", "{job}");
    }
    let data = sandbox.ok(&["put", "-d", "some data", "--", "grep", "-q", "some"]);
    assert_completes(&sandbox, data.trim());
    assert_calm(&sandbox);
    kill(both(&sandbox)[1], "KILL");
    wait_until("a new supervisor has found room", || status(&sandbox)["supervisor_restarts"] == 1);
    assert_works(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn slots_come_up_by_themselves_once_there_are_descriptors_again() {
    // The limits of another user's process are not ours to set.
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let _running = sandbox.start_under(&["prlimit", "--nofile=1024:1024"], &["-w", "12"]);
    wait_up(&sandbox);
    let set = |limit: &str| {
        for pid in both(&sandbox) {
            let limit = format!("--nofile={limit}:1024");
            let set = Command::new("prlimit").args([&limit, "--pid", &pid.to_string()]).status();
            assert!(set.expect("prlimit").success());
        }
    };
    set("48");
    for seen in sandbox.processes().iter().filter(|seen| seen.comm == "tv-parked") {
        kill(seen.pid, "KILL");
    }
    wait_until("the limit is named", || reasons(&status(&sandbox)).contains("EMFILE"));
    assert_works(&sandbox);
    set("1024");
    wait_up(&sandbox);
    wait_healthy(&sandbox);
}

#[test]
fn a_fork_that_is_refused_is_named_waited_for_and_made_good() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("pids", "fork") else { return skipped("no pids cgroup") };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cell.0.display());
    let mut running = sandbox.start_under(&["sh", "-c", &enter, "sh"], &["-w", "3"]);
    wait_up(&sandbox);
    let pipe = sandbox.work("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // It forks no more once it has begun.
    let jid = sandbox.put(&["sh", "-c", "touch begun; read word < pipe"]);
    wait_until("the job runs", || sandbox.work("begun").exists());
    cell.set("pids.max", "1");
    for seen in sandbox.processes().iter().filter(|seen| seen.comm == "tv-parked") {
        kill(seen.pid, "KILL");
    }
    let mut last = Value::Null;
    wait_until("the refusal is named", || {
        last = status(&sandbox);
        slots(&last).iter().filter(|slot| slot["state"] == "down").count() == 2
            && reasons(&last).contains("failed to fork")
            && reasons(&last).contains("EAGAIN")
    });
    assert_eq!(last["verdict"], "degraded", "{last}");
    assert_calm(&sandbox);
    let tries = sandbox.stderr().lines().filter(|line| line.contains("EAGAIN")).count();
    assert!(tries < 30, "{tries} tries");
    assert_eq!(sandbox.state(&jid), "running");
    cell.set("pids.max", "max");
    wait_up(&sandbox);
    fs::write(&pipe, "on\n").expect("a word");
    assert_completes(&sandbox, &jid);
    wait_healthy(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn a_store_locked_by_another_program_is_named_and_loses_nothing() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let jid = put_until_go(&sandbox, "true");
    let other = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    let since = Instant::now();
    let mut puts: Vec<_> = (0..6)
        .map(|_| {
            let mut put = sandbox.command(&["put", "--", "true"]);
            put.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("put")
        })
        .collect();
    go(&sandbox);
    let asked = |sandbox: &Sandbox| {
        let since = Instant::now();
        let status = status(sandbox);
        (since.elapsed(), status)
    };
    wait_until("its silence is known", || reasons(&status(&sandbox)).contains("broker: "));
    let (took, seen) = (0..3).map(|_| asked(&sandbox)).min_by_key(|(took, _)| *took).expect("a status");
    assert!(took < Duration::from_secs(1), "status took {took:?}");
    assert!(reasons(&seen).contains("broker: "), "{seen}");
    wait_within(Duration::from_secs(16), "all puts are answered", || {
        puts.iter_mut().all(|put| put.try_wait().expect("wait").is_some())
    });
    println!("answered after {:?}", since.elapsed());
    for put in puts {
        let output = put.wait_with_output().expect("put");
        assert_says(&sandbox, &output, 69, &["DIR/state/store.db", "another program has locked it"]);
    }
    assert_calm(&sandbox);
    other.execute_batch("ROLLBACK").expect("the end of the lock");
    assert_completes(&sandbox, &jid);
    assert_works(&sandbox);
    wait_healthy(&sandbox);
}

#[test]
fn a_supervisor_that_dies_while_the_store_is_locked_comes_back_when_it_is_free() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let jid = put_until_go(&sandbox, "true");
    let other = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("the new one is refused", || {
        let said = sandbox.stderr();
        said.contains("another program has locked it") && said.contains("trying again")
    });
    other.execute_batch("ROLLBACK").expect("the end of the lock");
    go(&sandbox);
    wait_until("the job is complete", || {
        sandbox.run(&["status"]).status.success() && sandbox.state(&jid) == "complete"
    });
    assert_eq!(sandbox.job(&jid)["interrupted"], 1);
    wait_healthy(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn a_store_that_is_none_of_ours_is_refused_by_start_and_put_and_left_as_it_is() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.put(&["true"]);
    let store = sandbox.path("state").join("store.db");
    let good = fs::read(&store).expect("the store");
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&99u32.to_be_bytes());
    let mut damaged = good.clone();
    let len = damaged.len();
    damaged[4096..len.min(16384)].fill(0x5a);
    let text =
        b"no database at all, but a text that is longer than a header of one hundred bytes, as it should be"
            .to_vec();
    for (content, why) in [
        (newer, "its schema is 99, this program knows"),
        (damaged, "it is damaged"),
        (text, "not a SQLite file"),
    ] {
        fs::write(&store, &content).expect("a file");
        for args in [&["start", "-w", "1"][..], &["put", "--", "true"]] {
            assert_says(&sandbox, &sandbox.run(args), 69, &["DIR/state/store.db", why]);
            assert!(fs::read(&store).expect("the store") == content, "{why}: {args:?} changed it");
        }
    }
    fs::remove_file(&store).expect("rm");
    fs::create_dir(&store).expect("mkdir");
    for args in [&["start", "-w", "1"][..], &["put", "--", "true"]] {
        assert_says(&sandbox, &sandbox.run(args), 69, &["DIR/state/store.db", "it is a directory"]);
    }
    fs::remove_dir(&store).expect("still an empty directory");
    sandbox.assert_nothing_left();
}

#[test]
fn while_the_disk_fails_nothing_is_acknowledged_and_all_goes_on_afterwards() {
    let sandbox = Sandbox::new(Setting::Plain);
    let Some(library) = shim(&sandbox) else { return };
    let flag = sandbox.path("eio");
    let words = ["DIR/state/store.db", "disk I/O error"];
    fs::write(&flag, "").expect("a flag");
    let mut alone = sandbox.command(&["put", "--", "true"]);
    let alone = alone.env("LD_PRELOAD", &library).env("DAYS_EIO", &flag).output().expect("put");
    assert_says(&sandbox, &alone, 69, &words);
    assert!(alone.stdout.is_empty());
    fs::remove_file(&flag).expect("rm");
    let _running = sandbox.start_with(&["-w", "2"], |command| {
        command.env("LD_PRELOAD", &library).env("DAYS_EIO", &flag);
    });
    wait_up(&sandbox);
    let jid = put_until_go(&sandbox, "true");
    fs::write(&flag, "").expect("a flag");
    let words = ["DIR/state/store.db-wal", "Input/output error", "os error 5"];
    assert_says(&sandbox, &sandbox.run(&["put", "--", "true"]), 69, &words);
    go(&sandbox);
    wait_until("the job has ended", || sandbox.job_processes().is_empty());
    let mut last = Value::Null;
    wait_until("status names the disk", || {
        last = status(&sandbox);
        reasons(&last).contains("Input/output error")
    });
    assert_eq!(last["verdict"], "degraded", "{last}");
    let since = Instant::now();
    wait_until("some tries to mend it have failed", || {
        let output = sandbox.run(&["put", "--", "true"]);
        assert_says(&sandbox, &output, 69, &words);
        assert!(output.stdout.is_empty());
        since.elapsed() > Duration::from_secs(2)
    });
    assert_calm(&sandbox);
    assert_ne!(sandbox.state(&jid), "complete", "the disk has not promised it");
    fs::remove_file(&flag).expect("rm");
    wait_until("the job is settled", || sandbox.state(&jid) == "complete");
    assert_completes(&sandbox, &jid);
    wait_until("a put is taken", || sandbox.run(&["put", "--", "true"]).status.success());
    wait_healthy(&sandbox);
    assert_works(&sandbox);
}

#[test]
fn a_put_is_answered_after_its_fdatasync() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    // Nothing else is written meanwhile.
    sandbox.put(&["true"]);
    wait_until("it is idle", || {
        sandbox.json(&["queue", "list", "--json"]).to_string().contains("\"complete\":1")
    });
    sandbox.ok(&["queue", "pause", "default"]);
    let (supervisor, trace) = (sandbox.one("tv-supervisor").to_string(), sandbox.path("trace"));
    let calls = "trace=fdatasync,fsync,write,writev,sendto,sendmsg,pwrite64";
    let strace = Command::new("strace")
        .args(["-f", "-y", "-s", "300", "-e", calls, "-p", &supervisor, "-o"])
        .arg(&trace)
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut strace) = strace else { return skipped("no strace") };
    let traced = || {
        fs::read_dir(format!("/proc/{supervisor}/task")).expect("tasks").flatten().all(|task| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        })
    };
    let mut over = false;
    wait_until("strace is attached", || {
        over = strace.try_wait().expect("wait").is_some();
        over || traced()
    });
    if over {
        return skipped("strace may not attach");
    }
    let jid = sandbox.put(&["true"]);
    wait_until("the answer is traced", || fs::read_to_string(&trace).is_ok_and(|trace| trace.contains(&jid)));
    kill(strace.id() as i32, "INT");
    strace.wait().expect("wait");
    let trace = fs::read_to_string(&trace).expect("a trace");
    let lines: Vec<&str> = trace.lines().collect();
    let find = |from: usize, what: &dyn Fn(&str) -> bool| {
        lines[from..]
            .iter()
            .position(|line| what(line))
            .map(|at| from + at)
            .unwrap_or_else(|| panic!("{trace}"))
    };
    let written = find(0, &|line| line.contains("pwrite64(") && line.contains("store.db-wal"));
    let begun = find(written, &|line| line.contains("fdatasync(") && line.contains("store.db-wal"));
    let done = match lines[begun].ends_with("= 0") {
        true => begun,
        false => find(begun, &|line| line.contains("fdatasync resumed") && line.ends_with("= 0")),
    };
    let answered = find(0, &|line| line.contains("HTTP/1.1 200") && line.contains(&jid));
    assert!(done < answered, "{trace}");
    let late = lines[begun..answered].iter().any(|line| line.contains("pwrite64(") && line.contains("-wal"));
    assert!(!late, "written after the sync: {trace}");
}

#[test]
fn a_wall_clock_that_jumps_a_day_moves_no_delay_and_no_lease() {
    let sandbox = Sandbox::new(Setting::Plain);
    let Some(library) = shim(&sandbox) else { return };
    let wall = sandbox.path("wall");
    let _running = sandbox.start_with(&["-w", "2", "--lease", "6s", "--grace", "1s"], |command| {
        command.env("LD_PRELOAD", &library).env("DAYS_WALL", &wall);
    });
    wait_up(&sandbox);
    let jid = put_until_go(&sandbox, "true");
    for (day, name) in [("86400", "ahead"), ("-86400", "back")] {
        let since = Instant::now();
        let late = sandbox.ok(&["put", "--delay", "2s", "--", "touch", name]);
        fs::write(&wall, day).expect("a jump");
        wait_within(Duration::from_secs(10), "the delayed job runs", || sandbox.work(name).exists());
        assert!(since.elapsed() >= Duration::from_millis(1990), "{name}: early, after {:?}", since.elapsed());
        assert_completes(&sandbox, late.trim());
        // Longer than the lease: it was renewed under the wrong clock.
        wait_until("the lease has been renewed", || since.elapsed() > Duration::from_millis(6500));
        assert_eq!(sandbox.state(&jid), "running", "{name}");
        assert_eq!(status(&sandbox)["verdict"], "healthy");
    }
    go(&sandbox);
    assert_completes(&sandbox, &jid);
    assert_calm(&sandbox);
}

#[test]
fn what_does_not_die_is_shown_with_its_cause_and_is_not_settled() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("freezer", "stuck") else { return skipped("no freezer") };
    let mut running = sandbox.start(&["-w", "2", "--grace", "200ms"]);
    let jid = sandbox.put(&["sh", "-c", "echo $$ > pid; exec sleep 1000"]);
    let mut pid = 0;
    wait_until("the job runs", || {
        pid =
            fs::read_to_string(sandbox.work("pid")).ok().and_then(|pid| pid.trim().parse().ok()).unwrap_or(0);
        pid > 0
    });
    cell.set("cgroup.procs", &pid.to_string());
    cell.set("freezer.state", "FROZEN");
    sandbox.ok(&["job", "cancel", &jid]);
    let mut last = Value::Null;
    wait_until("it is called unkillable", || {
        last = status(&sandbox);
        slots(&last).iter().any(|slot| slot["state"] == "unkillable")
    });
    let stuck = slots(&last).into_iter().find(|slot| slot["state"] == "unkillable").expect("a slot");
    let why = stuck["why"].as_str().expect("why");
    assert!(why.contains(&pid.to_string()) && why.contains("does not die"), "{why}");
    assert!(reasons(&last).contains(why), "{last}");
    assert_eq!(last["verdict"], "degraded");
    assert_eq!(stuck["jobs"][0]["id"], jid.as_str(), "{last}");
    let slot = format!("default.{}", stuck["slot"]["index"]);
    let caught = |snapshot: &Value| snapshot["processes"][0]["pid"].as_i64() == Some(pid.into());
    wait_until("why shows what it does", || {
        caught(&sandbox.json(&["why", "slot", &slot, "--json"])["snapshot"])
    });
    for _ in 0..5 {
        assert_works(&sandbox);
    }
    assert_calm(&sandbox);
    assert_eq!(sandbox.state(&jid), "canceling");
    assert!(alive(pid));
    cell.set("freezer.state", "THAWED");
    sandbox.run(&["job", "wait", &jid, "--timeout", "20s"]);
    assert_eq!(sandbox.state(&jid), "canceled");
    let job = sandbox.job(&jid);
    assert!(caught(&job["forensics"]["snapshot"]), "{job}");
    wait_healthy(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn readers_that_stall_or_are_killed_delay_nobody() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let jid = put_until_go(&sandbox, "head -c 2000000 /dev/zero | tr '\\0' x");
    let mut follower = sandbox.command(&["job", "logs", "-f", &jid]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().expect("logs");
    let mut watcher = sandbox.command(&["status", "--watch"]);
    let mut watcher = watcher.stdout(Stdio::piped()).spawn().expect("status");
    let mut stalled: Vec<_> = (0..20)
        .map(|_| {
            std::os::unix::net::UnixStream::connect(sandbox.path("run").join("ctl.sock")).expect("connect")
        })
        .collect();
    for client in &mut stalled {
        client.set_nonblocking(true).expect("nonblocking");
        let question = "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
        // It asks for more than the socket holds and reads nothing.
        let _ = client.write(question.as_bytes());
    }
    go(&sandbox);
    assert_completes(&sandbox, &jid);
    for _ in 0..5 {
        assert_works(&sandbox);
    }
    wait_healthy(&sandbox);
    assert_calm(&sandbox);
    kill(watcher.id() as i32, "KILL");
    watcher.wait().expect("wait");
    assert!(follower.try_wait().expect("wait").is_none(), "it waits for its reader");
    drop(follower.stdout.take());
    assert!(follower.wait().expect("wait").success(), "a reader that leaves is no error");
    drop(stalled);
    assert_works(&sandbox);
}

#[test]
fn a_start_that_cannot_be_is_refused_with_the_name_of_what_is_wrong() {
    let sandbox = Sandbox::new(Setting::Plain);
    assert_says(&sandbox, &sandbox.run(&["start", "-w", "0"]), 2, &["-w", "0 is not in 1.."]);
    assert_says(&sandbox, &sandbox.run(&["start", "-w", "70000"]), 2, &["-w", "70000 is not in 1..=65535"]);
    assert_says(&sandbox, &sandbox.run(&["start", "--wrokers", "2"]), 2, &["--wrokers", "--workers"]);
    let words = ["a lease of 5s is too short for a grace of 10s"];
    assert_says(&sandbox, &sandbox.run(&["start", "--lease", "5s", "--grace", "10s"]), 78, &words);
    fs::write(sandbox.work("wrong.yaml"), "pools:\n  - nmae: a\n").expect("a file");
    let words = ["wrong.yaml:2:5: unknown setting 'nmae'", "did you mean 'name'?"];
    assert_says(&sandbox, &sandbox.run(&["start", "-c", "wrong.yaml"]), 78, &words);

    let secret = sandbox.work("secret.yaml");
    fs::write(&secret, "lease: 1m\n").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("chmod");
    let words = ["failed to read secret.yaml", "Permission denied"];
    assert_says(&sandbox, &sandbox.run(&["start", "-c", "secret.yaml"]), 78, &words);

    let closed = sandbox.path("closed");
    fs::create_dir(&closed).expect("mkdir");
    if is_root() {
        chown(&closed, Some(0), Some(0)).expect("chown");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("chmod");
    let inside = closed.join("state").display().to_string();
    let words = ["DIR/closed/state", "Permission denied"];
    assert_says(&sandbox, &sandbox.run(&["start", "--state-dir", &inside]), 77, &words);
    assert_says(&sandbox, &sandbox.run(&["put", "--state-dir", &inside, "--", "true"]), 77, &words);
    if !is_root() {
        let words = ["DIR/closed", "Permission denied"];
        assert_says(
            &sandbox,
            &sandbox.run(&["start", "--state-dir", &closed.display().to_string()]),
            77,
            &words,
        );
    }

    let long = sandbox.path(&"long".repeat(30)).display().to_string();
    let words = ["longlong/ctl.sock", "107 bytes", "--run-dir"];
    for args in [&["start", "--run-dir", &long][..], &["put", "--run-dir", &long, "--", "true"]] {
        assert_says(&sandbox, &sandbox.run(args), 78, &words);
    }
    assert!(!Path::new(&long).exists(), "nothing was made");
    sandbox.assert_nothing_left();
}
