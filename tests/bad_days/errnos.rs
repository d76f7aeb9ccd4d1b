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

/// What the supervisor does to give a job its directory.
const OF_THE_SANDBOX: [Call; 3] = [
    newborns(
        "mkdir",
        &["EACCES", "EDQUOT", "EIO", "ELOOP", "EMLINK", "ENOENT", "ENOMEM", "ENOSPC", "ENOTDIR", "EROFS"],
    ),
    newborns("chown", &["EACCES", "EIO", "ELOOP", "ENOMEM", "EPERM", "EROFS"]),
    newborns("rename", &["EACCES", "EBUSY", "EDQUOT", "EIO", "ENOMEM", "ENOSPC", "EPERM", "EROFS"]),
];

/// strace, attached to processes, their children and theirs; None where the machine forbids that.
struct Injection<'a> {
    sandbox: &'a Sandbox,
    strace: std::process::Child,
}

impl Injection<'_> {
    fn begin<'a>(sandbox: &'a Sandbox, call: &Call, errno: &str, traced: &[i32]) -> Option<Injection<'a>> {
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
            let mut parked = Vec::new();
            // While a spawner that was killed does not die, as strace may hold it, a parked child waits.
            wait_until("the spawner waits for a job, or a parked child", || {
                parked = [named(&sandbox, "tv-spawner"), named(&sandbox, "tv-parked")].concat();
                !parked.is_empty()
            });
            let traced = [&both(&sandbox)[..1], &parked].concat();
            let Some(injection) = Injection::begin(&sandbox, call, errno, &traced) else {
                return missing("ptrace");
            };
            if call.is_keepers {
                parked.iter().for_each(|pid| kill(*pid, "KILL"));
            }
            costs_nothing(&sandbox, call, errno, injection);
        }
    }
    ends_well(&sandbox, &mut running);
}

#[test]
fn no_error_of_the_system_before_the_directory_of_a_job_costs_the_job_its_attempt() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let settings = "pools: [{name: a, workers: 1, run: [/bin/cat], user: nobody, sandbox: true}]\n";
    fs::write(sandbox.work("pool.yaml"), settings).expect("settings");
    let mut running = sandbox.start(&["-c", "pool.yaml"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    for call in &OF_THE_SANDBOX {
        for errno in call.errnos {
            let Some(injection) = Injection::begin(&sandbox, call, errno, &both(&sandbox)[1..]) else {
                return missing("ptrace");
            };
            costs_nothing(&sandbox, call, errno, injection);
        }
    }
    ends_well(&sandbox, &mut running);
}

fn named(sandbox: &Sandbox, comm: &str) -> Vec<i32> {
    sandbox.processes().iter().filter(|seen| seen.comm == comm).map(|seen| seen.pid).collect()
}

/// Asserts that a job completes in its first attempt once the error was met and is over.
fn costs_nothing(sandbox: &Sandbox, call: &Call, errno: &str, injection: Injection<'_>) {
    let jid = sandbox.ok(&["put", "--retries", "0", "default", "any", "1"]);
    let jid = jid.trim();
    wait_until(&format!("{} fails with {errno}", call.name), || injection.is_met());
    drop(injection);
    sandbox.run(&["job", "wait", jid, "--timeout", "40s"]);
    let job = sandbox.job(jid);
    let spent = (job["state"].as_str(), job["attempt"].as_u64(), job["interruptions"].as_u64());
    assert_eq!(spent, (Some("complete"), Some(1), Some(0)), "{} {errno}: {job}", call.name);
}

fn ends_well(sandbox: &Sandbox, running: &mut sandbox::Running<'_>) {
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

/// Asserts the same of jobs of workers that are killed and cannot start again. The modes share the errors: each of them
/// has the error of this number of each call.
fn holds_for_workers(mode: &str, number: usize) {
    if !is_root() {
        return missing("root");
    }
    // A template that dies again and again waits longer each time.
    let at_once = if mode == "fork" { 1 } else { OF_THE_POOL.len() };
    for calls in OF_THE_POOL.chunks(at_once) {
        let sandbox = Sandbox::new(Setting::Root);
        let mut running = start_workers(&sandbox, mode);
        for call in calls {
            let errno = call.errnos[number % call.errnos.len()];
            sandbox.wait_healthy();
            let Some(injection) = Injection::begin(&sandbox, call, errno, &both(&sandbox)[..1]) else {
                return missing("ptrace");
            };
            named(&sandbox, "python3").iter().for_each(|pid| kill(*pid, "KILL"));
            costs_nothing(&sandbox, call, errno, injection);
        }
        ends_well(&sandbox, &mut running);
    }
}

/// Starts a pool of one Python worker of another user.
fn start_workers<'a>(sandbox: &'a Sandbox, mode: &str) -> sandbox::Running<'a> {
    let (package, place) = (sandbox.work("python"), sandbox.work("place"));
    fs::create_dir(&package).and_then(|()| fs::create_dir(&place)).expect("mkdir");
    // The user may not be allowed to read this tree.
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/taskvisor")).arg(&package);
    assert!(copy.status().expect("cp").success());
    let kind = if mode == "coroutine" { "async def" } else { "def" };
    let app = format!("from taskvisor import job\n@job('any')\n{kind} run(*data):\n    pass\n");
    fs::write(package.join("app.py"), app).expect("an application");
    let program = format!(
        "#!/bin/sh\nPYTHONPATH={} PYTHONDONTWRITEBYTECODE=1 exec python3 -m taskvisor.worker app\n",
        package.display()
    );
    let program = sandbox.script("program", &program);
    let yaml = format!(
        "pools: [{{workers: 1, mode: {mode}, command: {program}, cwd: {}, user: nobody, \
         limits: {{nice: 1, open_files: 500}}}}]",
        place.display()
    );
    fs::write(sandbox.work("pool.yaml"), yaml).expect("settings");
    sandbox.start(&["-c", "pool.yaml"])
}

#[test]
fn no_error_of_the_system_before_a_template_costs_a_job_its_attempt() {
    holds_for_workers("fork", 0);
}

#[test]
fn no_error_of_the_system_before_a_prefork_worker_costs_a_job_its_attempt() {
    holds_for_workers("prefork", 1);
}

#[test]
fn no_error_of_the_system_before_a_coroutine_worker_costs_a_job_its_attempt() {
    holds_for_workers("coroutine", 2);
}
