//! Errors of the system between fork and exec, injected into real processes: none that belongs to the host or to the
//! pool costs a job its attempt.

use super::*;

/// A system call that a start makes, with the errors that its manual page names.
struct Call {
    name: &'static str,
    errnos: &'static [&'static str],
    /// Whether only uses of `PATHS` fail. If not, every use does, from the keeper's to that of its newborns.
    is_of_path: bool,
    /// Whether the keeper makes it, before the child that waits for a job.
    is_keepers: bool,
}

const fn of_path(name: &'static str, errnos: &'static [&'static str]) -> Call {
    Call { name, errnos, is_of_path: true, is_keepers: false }
}

const fn newborns(name: &'static str, errnos: &'static [&'static str]) -> Call {
    Call { name, errnos, is_of_path: false, is_keepers: false }
}

const fn keepers(name: &'static str, errnos: &'static [&'static str]) -> Call {
    Call { name, errnos, is_of_path: false, is_keepers: true }
}

const OF_THE_POOL: [Call; 9] = [
    of_path(
        "execve",
        &[
            "E2BIG", "EACCES", "EAGAIN", "EINVAL", "EIO", "EISDIR", "ELIBBAD", "ELOOP", "EMFILE", "ENFILE",
            "ENOENT", "ENOEXEC", "ENOMEM", "ENOTDIR", "EPERM", "ESTALE", "ETXTBSY",
        ],
    ),
    of_path("chdir", &["EACCES", "EIO", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR", "ESTALE"]),
    newborns("setresuid", &["EAGAIN", "EINVAL", "EPERM"]),
    newborns("setresgid", &["EINVAL", "EPERM"]),
    newborns("setgroups", &["EINVAL", "ENOMEM", "EPERM"]),
    newborns("prlimit64", &["EINVAL", "EPERM"]),
    newborns("setpriority", &["EACCES", "EPERM"]),
    keepers("pipe2", &["EMFILE", "ENFILE"]),
    keepers("socketpair", &["EMFILE", "ENFILE", "ENOMEM"]),
];

/// strace, attached to the keeper, its children and theirs; None where the machine forbids that.
struct Injection<'a> {
    sandbox: &'a Sandbox,
    strace: std::process::Child,
}

impl Injection<'_> {
    fn begin<'a>(sandbox: &'a Sandbox, call: &Call, errno: &str) -> Option<Injection<'a>> {
        let [keeper, _] = both(sandbox);
        let mut parked = None;
        wait_until("a child waits for a job", || {
            parked = sandbox.processes().iter().find(|seen| seen.comm == "tv-parked").map(|seen| seen.pid);
            parked.is_some()
        });
        let traced = [keeper, parked.expect("a child")];
        fs::remove_file(sandbox.path("trace")).ok();
        let mut strace = Command::new("strace");
        strace.arg("-f").arg("-o").arg(sandbox.path("trace"));
        strace.arg("-e").arg(format!("inject={}:error={errno}", call.name));
        if call.is_of_path {
            strace.args(["program", "place"].iter().flat_map(|name| ["-P".into(), sandbox.work(name)]));
        }
        strace.args(traced.iter().flat_map(|pid| ["-p".into(), pid.to_string()]));
        let mut strace = strace.stderr(Stdio::null()).spawn().ok()?;
        let mut is_over = false;
        wait_until("strace is attached", || {
            is_over = strace.try_wait().expect("wait").is_some();
            is_over || traced.iter().all(|pid| tracer(*pid) != Some(0))
        });
        (!is_over).then_some(Injection { sandbox, strace })
    }

    /// Whether the error was met.
    fn is_met(&self) -> bool {
        fs::read_to_string(self.sandbox.path("trace")).is_ok_and(|trace| trace.contains("(INJECTED)"))
    }
}

impl Drop for Injection<'_> {
    fn drop(&mut self) {
        kill(self.strace.id() as i32, "TERM");
        self.strace.wait().expect("wait");
    }
}

/// The pid of the process that traces one, or 0. None: it has ended.
fn tracer(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok())
}

#[test]
fn no_error_of_the_system_before_a_program_of_the_pool_costs_the_job_its_attempt() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let program = sandbox.script("program", "#!/bin/sh\nexit 0\n");
    let place = sandbox.work("place");
    fs::create_dir(&place).expect("mkdir");
    let yaml = format!(
        "pools: [{{name: a, workers: 1, run: [{program}], cwd: {}, user: nobody, limits: {{nice: 1, open_files: 500}}}}]",
        place.display()
    );
    fs::write(sandbox.work("pool.yaml"), yaml).expect("settings");
    let mut running = sandbox.start(&["-c", "pool.yaml"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    for call in &OF_THE_POOL {
        for errno in call.errnos {
            let Some(injection) = Injection::begin(&sandbox, call, errno) else { return missing("ptrace") };
            if call.is_keepers {
                sandbox
                    .processes()
                    .iter()
                    .filter(|seen| seen.comm == "tv-parked")
                    .for_each(|seen| kill(seen.pid, "KILL"));
            }
            let jid = sandbox.ok(&["put", "--retries", "0", "default", "any", "1"]);
            let jid = jid.trim();
            wait_until(&format!("{} fails with {errno}", call.name), || injection.is_met());
            drop(injection);
            sandbox.run(&["job", "wait", jid, "--timeout", "40s"]);
            let job = sandbox.job(jid);
            let spent = (job["state"].as_str(), job["attempt"].as_u64(), job["interruptions"].as_u64());
            assert_eq!(spent, (Some("complete"), Some(1), Some(0)), "{} {errno}: {job}", call.name);
        }
    }
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}
