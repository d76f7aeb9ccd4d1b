//! The units under a real systemd: start, reload, watchdog, the end of a job and of the service.
#![allow(missing_docs)]

#[path = "support/machine.rs"]
mod machine;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::time::Instant;

use machine::{Machine, below};
use sandbox::wait_until;

const UNIT: &str = "taskvisor";

/// Boots a machine on which the service runs.
fn started() -> Option<Machine> {
    let machine = Machine::boot()?;
    machine.run(&["systemctl", "start", UNIT]);
    Some(machine)
}

/// A command of taskvisor as its user, with the service's directories.
fn taskvisor(machine: &Machine, args: &[&str]) -> String {
    let line = ["setpriv", "--reuid=64322", "--regid=64322", "--clear-groups", "env"];
    let places = ["TASKVISOR_STATE_DIR=/var/lib/taskvisor", "TASKVISOR_RUN_DIR=/run/taskvisor", "taskvisor"];
    machine.run(&[&line[..], &places, args].concat())
}

fn json(machine: &Machine, args: &[&str]) -> serde_json::Value {
    let text = taskvisor(machine, args);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
}

#[test]
fn unit_is_active_when_its_first_slot_is_ready_and_shows_a_status_line() {
    let Some(machine) = started() else { return };
    assert_eq!(machine.show(UNIT, "ActiveState"), "active");
    let keeper = machine.one(UNIT, "taskvisor");
    assert_eq!(machine.show(UNIT, "MainPID"), keeper.to_string());
    machine.one(UNIT, "tv-supervisor");
    wait_until("systemd shows a line", || machine.show(UNIT, "StatusText").starts_with("8 slots"));
    // Each worker has its own cgroup below the keeper's.
    let jid = taskvisor(&machine, &["put", "--", "sleep", "1000"]);
    machine.one(UNIT, "sleep");
    let job = below(&machine.unit_cgroup(UNIT)).into_iter().find(|dir| {
        machine::read(&dir.join("cgroup.procs")).lines().count() == 1
            && dir.parent().is_some_and(|parent| parent.to_string_lossy().contains(&format!("/{UNIT}-")))
    });
    assert!(job.is_some(), "no cgroup of a life: {:?}", below(&machine.unit_cgroup(UNIT)));
    assert_eq!(json(&machine, &["job", "show", jid.trim(), "--json"])["state"], "running");
    for (directory, mode) in
        [("/var/lib/taskvisor", "700"), ("/run/taskvisor", "700"), ("/var/log/taskvisor", "700")]
    {
        assert_eq!(machine.run(&["stat", "-c", "%a %U", directory]).trim(), format!("{mode} taskvisor"));
    }
}

/// `ProtectProc=invisible` hides the keeper from the supervisor.
#[test]
fn status_under_the_unit_shows_the_keeper_and_the_tree_of_a_job_and_a_keeper_that_is_stopped() {
    let Some(machine) = started() else { return };
    let keeper = machine.one(UNIT, "taskvisor");
    let jid = taskvisor(&machine, &["put", "--", "sh", "-c", "sleep 1000; :"]);
    machine.one(UNIT, "sleep");
    let status = json(&machine, &["status", "--json"]);
    assert_eq!((&status["keeper"]["pid"], &status["keeper"]["name"]), (&keeper.into(), &"taskvisor".into()));
    assert!(status["keeper"]["rss"].as_u64() > Some(0), "{}", status["keeper"]);
    let slots = status["pools"][0]["slots"].to_string();
    assert!(slots.contains("\"name\":\"sh\"") && slots.contains("\"name\":\"sleep\""), "{slots}");
    let picture = taskvisor(&machine, &["job", "picture", jid.trim()]);
    assert!(picture.contains("sleep("), "{picture}");
    machine.run(&["kill", "-STOP", &keeper.to_string()]);
    wait_until("status names it", || {
        let reasons = json(&machine, &["status", "--json"])["reasons"].to_string();
        reasons.contains(&format!("the keeper is stopped, no worker starts or ends: kill -CONT {keeper}"))
    });
    machine.run(&["kill", "-CONT", &keeper.to_string()]);
}

#[test]
fn systemctl_kill_to_all_processes_stops_the_unit_and_spends_no_attempt() {
    let Some(machine) = started() else { return };
    let jid = taskvisor(&machine, &["put", "--", "sleep", "1000"]);
    machine.one(UNIT, "sleep");
    // It fails where a process ends before its turn has come.
    machine.try_run(&["systemctl", "kill", UNIT]);
    wait_until("it has stopped", || machine.show(UNIT, "ActiveState") == "inactive");
    machine.run(&["systemctl", "start", UNIT]);
    machine.one(UNIT, "sleep");
    let job = json(&machine, &["job", "show", jid.trim(), "--json"]);
    assert_eq!((&job["state"], &job["attempt"]), (&"running".into(), &1.into()), "{job}");
    assert_eq!(job["crashes"], 0, "{job}");
}

#[test]
fn instances_have_settings_and_directories_of_their_own() {
    let Some(machine) = Machine::boot() else { return };
    machine.run(&["mkdir", "-p", "/etc/taskvisor"]);
    for (name, workers) in [("mail", 2), ("video", 3)] {
        let write = format!("printf 'pools:\n  - workers: {workers}\n' > /etc/taskvisor/{name}.yaml");
        machine.run(&["bash", "-c", &write]);
        machine.run(&["systemctl", "start", &format!("taskvisor@{name}")]);
        let line = format!("{workers} slots");
        let unit = format!("taskvisor@{name}");
        wait_until("it shows its slots", || machine.show(&unit, "StatusText").starts_with(&line));
        machine.run(&["test", "-f", &format!("/var/lib/taskvisor-{name}/store.db")]);
        machine.run(&["test", "-S", &format!("/run/taskvisor-{name}/ctl.sock")]);
    }
    machine.run(&["systemctl", "stop", "taskvisor@mail"]);
    assert_eq!(machine.show("taskvisor@mail", "ActiveState"), "inactive");
    assert_eq!(machine.show("taskvisor@video", "ActiveState"), "active");
}

#[test]
fn systemctl_reload_applies_new_settings_and_refuses_wrong_ones() {
    let Some(machine) = Machine::boot() else { return };
    let (unit, file) = ("taskvisor@mail", "/etc/taskvisor/mail.yaml");
    let settings = |text: &str| {
        let write = format!("mkdir -p /etc/taskvisor; printf '{text}' > {file}");
        machine.run(&["bash", "-c", &write]);
    };
    settings("pools:\\n  - workers: 2\\n");
    machine.run(&["systemctl", "start", unit]);
    let (keeper, supervisor) = (machine.one(unit, "taskvisor"), machine.one(unit, "tv-supervisor"));
    settings("pools:\\n  - workers: 3\\n");
    machine.run(&["systemctl", "reload", unit]);
    wait_until("the new settings are in force", || machine.show(unit, "StatusText").starts_with("3 slots"));
    settings("pools: nonsense\\n");
    let refused = machine.try_run(&["bash", "-c", &format!("systemctl reload {unit} || echo refused")]);
    assert_eq!(refused.trim(), "refused", "a reload of wrong settings is an error");
    let shown = || machine.show(unit, "StatusText");
    wait_until("its line says so", || shown().starts_with("degraded: the last reload changed nothing"));
    assert_eq!(machine.show(unit, "ActiveState"), "active");
    assert_eq!((machine.one(unit, "taskvisor"), machine.one(unit, "tv-supervisor")), (keeper, supervisor));
}

#[test]
fn systemd_does_not_retry_wrong_settings_and_shows_a_pause() {
    let Some(machine) = Machine::boot() else { return };
    let unit = "taskvisor@mail";
    let write = "mkdir -p /etc/taskvisor; echo 'pools: nonsense' > /etc/taskvisor/mail.yaml";
    machine.run(&["bash", "-c", write]);
    machine.try_run(&["systemctl", "start", unit]);
    wait_until("it has failed", || machine.show(unit, "ActiveState") == "failed");
    assert_eq!(
        (machine.show(unit, "ExecMainStatus"), machine.show(unit, "NRestarts")),
        ("78".into(), "0".into())
    );
    machine.run(&["systemctl", "start", UNIT]);
    taskvisor(&machine, &["pause"]);
    let shown = || machine.show(UNIT, "StatusText");
    wait_until("its line says so", || shown().starts_with("degraded: pool default is paused by uid 64322"));
    let exposure = machine.run(&["systemd-analyze", "security", "--no-pager", UNIT]);
    let level = exposure.split("exposure level for").nth(1).and_then(|rest| rest.split_whitespace().nth(1));
    let level: f64 = level.and_then(|level| level.parse().ok()).unwrap_or_else(|| panic!("{exposure}"));
    assert!(level <= 2.0, "{exposure}");
}

/// Starts the service with some settings of its unit changed.
fn start_with(machine: &Machine, settings: &str) {
    let dir = "/etc/systemd/system/taskvisor.service.d";
    let write = format!("mkdir -p {dir}; printf '[Service]\\n{settings}\\n' > {dir}/test.conf");
    machine.run(&["bash", "-c", &write]);
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", UNIT]);
}

#[test]
fn members_of_the_group_put_while_the_unit_is_stopped_and_before_its_first_start() {
    let Some(machine) = Machine::boot() else { return };
    let write = "echo web:x:64400: >>/etc/group; echo 'socket_group: web' >/etc/taskvisor.yaml";
    machine.run(&["bash", "-c", write]);
    let start = "/usr/local/bin/taskvisor start -w 2 -c /etc/taskvisor.yaml";
    start_with(&machine, &format!("SupplementaryGroups=web\\nExecStart=\\nExecStart={start}"));
    machine.run(&["systemctl", "stop", UNIT]);
    let put = |place: &str| {
        let member = ["setpriv", "--reuid=64500", "--regid=64500", "--groups=64400", "env", "HOME=/", place];
        machine.run(&[&member[..], &["taskvisor", "put", "--", "true"]].concat()).trim().to_owned()
    };
    let stopped = put("TASKVISOR_RUN_DIR=/run/taskvisor");
    // As after a boot: nothing is left below /run.
    machine.run(&["rm", "-r", "/run/taskvisor"]);
    let booted = put("TASKVISOR_STATE_DIR=/var/lib/taskvisor");
    machine.run(&["systemctl", "start", UNIT]);
    for id in [stopped, booted] {
        taskvisor(&machine, &["job", "wait", &id]);
    }
}

#[test]
fn systemd_restarts_a_hanging_keeper() {
    let Some(machine) = Machine::boot() else { return };
    start_with(&machine, "WatchdogSec=2");
    let jid = taskvisor(&machine, &["put", "--", "sleep", "1000"]).trim().to_owned();
    let (keeper, job) = (machine.one(UNIT, "taskvisor"), machine.one(UNIT, "sleep"));
    machine.signal(keeper, "STOP");
    wait_until("systemd has started it again", || {
        machine.show(UNIT, "NRestarts") == "1" && machine.show(UNIT, "ActiveState") == "active"
    });
    wait_until("the job runs again", || machine.one(UNIT, "sleep") != job);
    let job = json(&machine, &["job", "show", &jid, "--json"]);
    assert_eq!(job["attempt"], 1, "{job}");
}

#[test]
fn keeper_replaces_a_hanging_supervisor_before_systemd_acts() {
    let Some(machine) = Machine::boot() else { return };
    start_with(&machine, "WatchdogSec=4");
    let jid = taskvisor(&machine, &["put", "--", "sleep", "1000"]).trim().to_owned();
    let (keeper, hung) = (machine.one(UNIT, "taskvisor"), machine.one(UNIT, "tv-supervisor"));
    let job = machine.one(UNIT, "sleep");
    machine.signal(hung, "STOP");
    wait_until("another supervisor is there", || machine.one(UNIT, "tv-supervisor") != hung);
    wait_until("the job runs again", || machine.one(UNIT, "sleep") != job);
    assert_eq!(machine.one(UNIT, "taskvisor"), keeper);
    assert_eq!(machine.show(UNIT, "NRestarts"), "0");
    let job = json(&machine, &["job", "show", &jid, "--json"]);
    assert_eq!((&job["attempt"], &job["interruptions"]), (&1.into(), &1.into()), "{job}");
}

#[test]
fn killed_job_does_not_end_the_service() {
    let Some(machine) = started() else { return };
    assert_eq!(machine.show(UNIT, "OOMPolicy"), "continue");
    let jid = taskvisor(&machine, &["put", "--", "sleep", "1000"]).trim().to_owned();
    machine.signal(machine.one(UNIT, "sleep"), "KILL");
    wait_until("the crash is noted", || {
        let job = json(&machine, &["job", "show", &jid, "--json"]);
        job["crashes"].as_u64() >= Some(1)
    });
    assert_eq!(machine.show(UNIT, "ActiveState"), "active");
    assert_eq!(machine.show(UNIT, "NRestarts"), "0");
}

/// Takes memory without end; the `ulimit` stops it where no other limit does.
const HOG: &str = "ulimit -v 2000000; tail /dev/zero";

#[test]
fn job_that_takes_all_memory_of_the_unit_dies_alone() {
    let Some(machine) = Machine::boot_with_memory() else { return };
    start_with(&machine, "MemoryMax=100M\\nMemorySwapMax=0");
    let (keeper, supervisor) = (machine.one(UNIT, "taskvisor"), machine.one(UNIT, "tv-supervisor"));
    let jid = taskvisor(&machine, &["put", "--retries", "0", "--", "bash", "-c", HOG]).trim().to_owned();
    let mut job = serde_json::Value::Null;
    wait_until("it is held or has failed", || {
        job = json(&machine, &["job", "show", &jid, "--json"]);
        job["state"] == "held" || job["state"] == "failed"
    });
    assert!(machine.oom_kills(UNIT) > 0, "the kernel has killed nothing: {job}");
    assert_eq!(machine.show(UNIT, "ActiveState"), "active");
    assert_eq!(machine.show(UNIT, "NRestarts"), "0");
    assert_eq!((machine.one(UNIT, "taskvisor"), machine.one(UNIT, "tv-supervisor")), (keeper, supervisor));
}

/// The doctor's findings within the unit.
fn findings(machine: &Machine, settings: &str) -> impl Fn(&str) -> serde_json::Value {
    // `exec` replaces the shell, so that the doctor is alone in the cgroup, as the service will be.
    let doctor = "exec taskvisor doctor --json > /var/lib/taskvisor/doctor.json";
    start_with(machine, &format!("ExecStartPre=/bin/sh -c \"{doctor}\"\\n{settings}"));
    let text = machine.run(&["cat", "/var/lib/taskvisor/doctor.json"]);
    let findings: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(findings["well"], true, "{text}");
    move |name| {
        let checks = findings["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["name"] == name).expect("a check").clone()
    }
}

#[test]
fn doctor_in_the_unit_reports_what_the_unit_allows() {
    let Some(machine) = Machine::boot() else { return };
    let has_bounds = machine.hand_down("hugetlb");
    let of = findings(&machine, "");
    let memory = of("memory controller");
    let is_missing = memory["found"].as_str().is_some_and(|found| found.starts_with("not handed down"));
    assert!(memory["state"] == "ok" || is_missing || !has_bounds, "{memory}");
    assert_eq!(of("cgroup v2")["state"], "ok", "{}", of("cgroup v2"));
    let systemd = of("systemd");
    assert!(systemd["found"].as_str().is_some_and(|found| found.starts_with("version ")), "{systemd}");
    // systemd cannot see the flags of clone3, and refuses it with the namespaces.
    let remedy = of("clone3")["remedy"].clone();
    assert!(remedy.as_str().is_some_and(|remedy| remedy.contains("RestrictNamespaces=no")), "{remedy}");
    machine.run(&["systemctl", "stop", UNIT]);
    let of = findings(&machine, "RestrictNamespaces=no");
    assert_eq!(of("clone3")["state"], "ok", "{}", of("clone3"));
}

/// The cgroups of a unit below its own, by name; those of lives do not count.
fn rooms(machine: &Machine) -> Vec<String> {
    let dirs = below(&machine.unit_cgroup(UNIT)).into_iter().skip(1);
    let names = dirs.map(|dir| dir.file_name().expect("a name").to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("taskvisor-") && !name.contains('.')).collect()
}

#[test]
fn keeper_delegates_controllers_within_its_unit_and_systemd_still_controls_it() {
    let Some(machine) = Machine::boot() else { return };
    // Where systemd has no controller to delegate, one that it does not know works as well.
    if !machine.hand_down("hugetlb") {
        return;
    }
    start_with(&machine, "WatchdogSec=2");
    let own = machine.unit_cgroup(UNIT);
    for (restarts, how) in [("0", ""), ("1", "STOP")] {
        if !how.is_empty() {
            machine.signal(machine.one(UNIT, "taskvisor"), how);
        }
        wait_until("it is up", || {
            machine.show(UNIT, "NRestarts") == restarts && machine.show(UNIT, "ActiveState") == "active"
        });
        let (keeper, supervisor) = (machine.one(UNIT, "taskvisor"), machine.one(UNIT, "tv-supervisor"));
        assert_eq!(machine.show(UNIT, "MainPID"), keeper.to_string());
        assert_eq!(machine::read(&own.join("cgroup.procs")), "");
        assert_eq!(machine::read(&own.join("taskvisor-keeper/cgroup.procs")).lines().count(), 2);
        assert!(rooms(&machine).len() == 2, "{:?}", rooms(&machine));
        machine.run(&["systemctl", "reload", UNIT]);
        wait_until("it is active", || machine.show(UNIT, "ActiveState") == "active");
        taskvisor(&machine, &["job", "wait", taskvisor(&machine, &["put", "--", "true"]).trim()]);
        assert_eq!(machine.one(UNIT, "tv-supervisor"), supervisor);
        let tree = machine.run(&["systemctl", "status", UNIT]);
        // Pids are right-aligned: a shorter one has blanks before it.
        let is_keeper = |line: &str| {
            let line = line.split_once("├─").map_or("", |(_, line)| line);
            line.trim_start().starts_with(&format!("{keeper} taskvisor"))
        };
        assert!(tree.contains("└─taskvisor-keeper") && tree.lines().any(is_keeper), "{tree}");
    }
    machine.run(&["systemctl", "stop", UNIT]);
    assert_eq!(machine.show(UNIT, "Result"), "success");
    assert_eq!(below(&own), Vec::<std::path::PathBuf>::new());
}

#[test]
fn killed_main_process_leaves_no_process_and_its_job_runs_again() {
    for with_controllers in [false, true] {
        let Some(machine) = Machine::boot() else { return };
        if with_controllers && !machine.hand_down("hugetlb") {
            return;
        }
        start_with(&machine, "Restart=no");
        let jid = taskvisor(&machine, &["put", "--", "bash", "-c", STUBBORN]).trim().to_owned();
        let sleepers = || machine.processes(UNIT).iter().filter(|(name, _)| name == "sleep").count();
        wait_until("both are there", || sleepers() == 2);
        machine.run(&["systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT]);
        wait_until("it has failed", || machine.show(UNIT, "ActiveState") == "failed");
        assert_eq!(below(&machine.unit_cgroup(UNIT)), Vec::<std::path::PathBuf>::new());
        let left = machine.try_run(&["pgrep", "-x", "taskvisor|tv-supervisor|tv-spawner|tv-parked|sleep"]);
        assert_eq!(left, "");
        machine.run(&["systemctl", "start", UNIT]);
        wait_until("it runs again", || sleepers() == 2);
        let job = json(&machine, &["job", "show", &jid, "--json"]);
        assert_eq!((&job["attempt"], &job["interruptions"]), (&1.into(), &1.into()), "{job}");
    }
}

/// Ignores TERM, and so does the child that has left its session and its parent.
const STUBBORN: &str = "trap '' TERM; (setsid bash -c \"trap '' TERM; exec -a daemon sleep 1000\" &) ; while :; do sleep 1000; done";

#[test]
fn systemctl_stop_kills_a_stubborn_job_in_time_and_leaves_nothing() {
    let Some(machine) = Machine::boot() else { return };
    let start = "/usr/local/bin/taskvisor start -w 8 --stop-deadline 4s --grace 2s";
    start_with(&machine, &format!("ExecStart=\\nExecStart={start}\\nTimeoutStopSec=15"));
    taskvisor(&machine, &["put", "--", "bash", "-c", STUBBORN]);
    wait_until("both are there", || {
        machine.processes(UNIT).iter().filter(|(name, _)| name == "sleep").count() == 2
    });
    let begun = Instant::now();
    machine.run(&["systemctl", "stop", UNIT]);
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
    assert_eq!(machine.show(UNIT, "ActiveState"), "inactive");
    assert_eq!(machine.show(UNIT, "Result"), "success");
    assert_eq!(below(&machine.unit_cgroup(UNIT)), Vec::<std::path::PathBuf>::new());
}
