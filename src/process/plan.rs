//! How the processes of a pool are made: decided once, used for each life.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::Room;
use model::{Bytes, Exec, Failure, Job, Payload, PoolSettings, SpawnSpec, Work, WorkerId, WorkerName};
use start_dir::start_dir;
use wire::fault::ByJob;
use wire::program::{Identity, Program};
use wire::worker::{CHANNEL, FORKS, PROTOCOL};

/// Variables of our own environment that processes get: their user and place, and where languages look for code.
/// Everything else (credentials!) stays here unless the pool passes it on.
const INHERITED: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "NODE_PATH",
    "NODE_ENV",
    "RUBYLIB",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_GEMFILE",
    "BUNDLE_PATH",
];

/// The keeper's tag on every program, by which it is found if it outlives the keeper; and the variable in which we get
/// the value.
const TAG: &str = "TASKVISOR_KEEPER";
const TAG_GIVEN: &str = "TASKVISOR_KEEPER_TAG";

/// The PATH if we were started without one.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A pool, as far as its processes are concerned.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) name: Arc<str>,
    pub(super) settings: PoolSettings,
    pub(super) spec: SpawnSpec,
    /// The path of the API's socket, for workers that put jobs by themselves.
    socket: PathBuf,
    /// The parent of the slots' directories, in a pool that has them.
    sandboxes: PathBuf,
    /// The environment with which each of its processes begins, as `NAME=value`.
    environment: Vec<Vec<u8>>,
    /// Whether a user may look into a process that has just become that user, or nobody knows.
    is_exposed: bool,
}

/// Where a parked child looks for its program.
pub(super) struct Places {
    /// The working directory of the program.
    pub(super) cwd: String,
    /// Directories for a name without `/`, as in PATH.
    pub(super) path: String,
}

/// What a parked child was to become, for messages and for the verdict on a failure.
pub(super) struct Started {
    /// The program, as it was named.
    pub(super) name: String,
    pub(super) places: Places,
    pub(super) by_job: ByJob,
}

/// The role of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A parked child: it becomes the program of its job.
    Parked,
    /// The pool's command: speaks the worker protocol.
    Worker,
    /// The pool's command as a template: forks job children.
    Template,
    /// Forked by the template: speaks the worker protocol, and is ready at once.
    Child,
}

impl Plan {
    /// Makes the plan; `socket` is the API's, `sandboxes` the parent of the lives' directories.
    pub fn new(settings: &PoolSettings, spec: &SpawnSpec, socket: &Path, sandboxes: &Path) -> Plan {
        Plan {
            name: settings.name.as_str().into(),
            settings: settings.clone(),
            spec: spec.clone(),
            socket: socket.to_owned(),
            sandboxes: sandboxes.to_owned(),
            environment: environment(spec),
            // So dumpable is a process that changes its user (prctl(2)): with 1 that user may trace it.
            is_exposed: std::fs::read_to_string("/proc/sys/fs/suid_dumpable")
                .map_or(true, |dumps| dumps.trim() == "1"),
        }
    }

    /// The name of a worker of the pool.
    pub(super) fn name(&self, worker: WorkerId) -> String {
        WorkerName::new(self.name.clone(), worker).to_string()
    }

    /// Whether a worker ends after one job.
    pub(super) fn one_job_a_life(&self) -> bool {
        self.settings.jobs_per_life == Some(1)
    }

    /// Whether jobs run one at a time in a worker, so that its output belongs to that job.
    pub(super) fn one_at_a_time(&self) -> bool {
        self.settings.jobs_at_once == 1
    }

    /// The role of a life, by its slot.
    pub(super) fn role(&self, worker: WorkerId) -> Role {
        match (&self.spec.work, worker.slot.index) {
            (Work::Programs | Work::Run(_), _) => Role::Parked,
            // Only a template has index 0: workers are counted from 1.
            (Work::Command(_), 0) => Role::Template,
            (Work::Command(_), _) if self.settings.template => Role::Child,
            (Work::Command(_), _) => Role::Worker,
        }
    }

    /// Whether a life begins without a process, and gets one with its program. Until then that shares the memory of the
    /// spawner, which has the keeper's user: no other user may look into it.
    pub(super) fn is_placed(&self, worker: WorkerId) -> bool {
        self.role(worker) == Role::Parked && (self.spec.identity.is_none() || !self.is_exposed)
    }

    /// The life's own directory, in a pool that has them. It is not the slot's: while a pool is replaced, two lives of
    /// a slot run beside each other.
    pub(super) fn sandbox(&self, worker: WorkerId) -> Option<PathBuf> {
        let name = format!("{}-{}.{}", self.settings.name, worker.slot.index, worker.generation);
        self.spec.sandbox.then(|| self.sandboxes.join(name))
    }

    /// The pool's command, for a worker or a template.
    pub(super) fn command(&self, worker: WorkerId) -> Program {
        let argv = match &self.spec.work {
            Work::Command(argv) => argv.iter().map(|word| word.0.clone()).collect(),
            Work::Programs | Work::Run(_) => Vec::new(),
        };
        let mut env = self.environment.clone();
        let forks = (worker.slot.index == 0).then(|| ("TASKVISOR_FORK_FD", FORKS.to_string()));
        let about = [
            ("TASKVISOR_FD", CHANNEL.to_string()),
            ("TASKVISOR_PROTOCOL", PROTOCOL.to_string()),
            ("TASKVISOR_POOL", self.settings.name.clone()),
            ("TASKVISOR_MODE", self.settings.mode().to_owned()),
            ("TASKVISOR_CONCURRENCY", self.settings.jobs_at_once.to_string()),
            ("TASKVISOR_WORKER", self.name(worker)),
        ];
        env.extend(about.into_iter().chain(forks).map(variable));
        env.push(self.socket());
        let cwd = self.spec.cwd.clone().unwrap_or_else(start_dir);
        Program {
            argv,
            env,
            cwd: cwd.into_os_string().into_vec(),
            umask: self.spec.umask.unwrap_or(0o22),
            stdin: false,
            speaks: true,
            identity: self.identity(),
            process_limits: self.spec.process_limits,
        }
    }

    /// The variable by which jobs, and the commands that they run, find this supervisor.
    fn socket(&self) -> Vec<u8> {
        [SpawnSpec::SOCKET.as_bytes(), b"=", self.socket.as_os_str().as_bytes()].concat()
    }

    fn identity(&self) -> Option<Identity> {
        let who = self.spec.identity.as_ref()?;
        Some(Identity { uid: who.uid, gid: who.gid, groups: who.groups.clone() })
    }

    /// The program that runs a job in this pool: the job's own, or the pool's with the job's data on stdin.
    pub(super) fn exec(&self, job: &Job) -> Option<Exec> {
        match (&job.payload, &self.spec.work) {
            (Payload::Exec(exec), _) => Some(exec.clone()),
            (Payload::Data(data), Work::Run(argv)) => Some(Exec {
                argv: argv.clone(),
                cwd: Bytes(self.spec.cwd.clone().unwrap_or_else(start_dir).into_os_string().into_vec()),
                umask: self.spec.umask.unwrap_or(0o22),
                stdin: data.clone(),
            }),
            (Payload::Data(_), Work::Programs | Work::Command(_)) => None,
        }
    }

    /// The names in the order for a parked child, and who chose them.
    pub(super) fn started(&self, job: &Job, worker: WorkerId) -> Option<Started> {
        let exec = self.exec(job)?;
        let program = matches!(job.payload, Payload::Exec(_));
        let length = program && Room::here().fits(self.environment.iter());
        let by_job = ByJob { program, directory: program && !self.spec.sandbox, length };
        let name = exec.argv.first().map(Bytes::to_text).unwrap_or_default().into_owned();
        let places = self.places(&self.directory(&exec, worker).0);
        Some(Started { name, places, by_job })
    }

    /// Where a program of the pool is looked for from this directory.
    pub(super) fn places(&self, cwd: &[u8]) -> Places {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let path = self.environment.iter().find_map(|line| line.strip_prefix(b"PATH="));
        Places { cwd: text(cwd), path: path.map(text).unwrap_or_default() }
    }

    fn directory(&self, exec: &Exec, worker: WorkerId) -> Bytes {
        self.sandbox(worker).map_or_else(|| exec.cwd.clone(), |dir| Bytes(dir.into_os_string().into_vec()))
    }

    /// Why no program can be started for this job, if that is for its names.
    pub(super) fn refuses(&self, job: &Job) -> Option<Failure> {
        let own = match &self.spec.work {
            Work::Run(argv) => argv.as_slice(),
            Work::Programs | Work::Command(_) => &[],
        };
        let pool = own.iter().map(|word| &word.0).chain(&self.environment);
        Room::here().refuses(&names(job), pool)
    }

    /// The order for a parked child. The environment has only ids: data goes by stdin.
    pub(super) fn program(&self, exec: &Exec, job: &Job, worker: WorkerId) -> Program {
        let mut env = self.environment.clone();
        env.extend(names(job).map(|(_, variable)| variable));
        env.push(variable(("TASKVISOR_ATTEMPT", job.attempt.to_string())));
        env.push(variable(("TASKVISOR_WORKER", self.name(worker))));
        env.push(self.socket());
        Program {
            argv: exec.argv.iter().map(|arg| arg.0.clone()).collect(),
            env,
            cwd: self.directory(exec, worker).0,
            umask: exec.umask,
            stdin: !exec.stdin.0.is_empty(),
            speaks: false,
            identity: self.identity(),
            process_limits: self.spec.process_limits,
        }
    }
}

/// The names of a job as variables of its program, each with what people call it.
fn names(job: &Job) -> [(&'static str, Vec<u8>); 3] {
    let all = [
        ("id", ("TASKVISOR_JOB", job.id.to_string())),
        ("class", ("TASKVISOR_CLASS", job.class.to_string())),
        ("queue", ("TASKVISOR_QUEUE", job.queue.to_string())),
    ];
    all.map(|(what, value)| (what, variable(value)))
}

/// The environment with which a pool's processes begin.
fn environment(spec: &SpawnSpec) -> Vec<Vec<u8>> {
    let mut set: Vec<(&str, String)> = Vec::new();
    if let Some(who) = &spec.identity {
        set.push(("HOME", who.home.display().to_string()));
        set.extend([("USER", who.name.clone()), ("LOGNAME", who.name.clone())]);
    }
    set.extend(spec.env_set.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let is_set = |name: &str| set.iter().any(|(known, _)| *known == name);
    let mut environment: Vec<Vec<u8>> = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| passes(spec, name) && !is_set(name)))
        .map(|(name, value)| [name.into_vec(), value.into_vec()].join(&b'='))
        .collect();
    if !is_set("PATH") && !environment.iter().any(|line| line.starts_with(b"PATH=")) {
        environment.push(variable(("PATH", PATH.into())));
    }
    // No program we know uses the last of several variables of one name, so the pool's value replaces the user's.
    let mut last: BTreeMap<&str, String> = BTreeMap::new();
    last.extend(set);
    environment.extend(last.into_iter().map(variable));
    if let Some(tag) = std::env::var_os(TAG_GIVEN) {
        environment.push([TAG.as_bytes(), tag.as_encoded_bytes()].join(&b'='));
    }
    environment
}

/// What `start` tells its supervisor, and no job.
const OF_THE_SUPERVISOR: [&str; 4] = [
    start_dir::VARIABLE,
    "TASKVISOR_SETTINGS_IN_FORCE",
    "TASKVISOR_CHANGES_IN_FORCE",
    "TASKVISOR_BROKER_TYPED",
];

/// Whether a variable of our own environment goes to the pool's processes.
fn passes(spec: &SpawnSpec, name: &str) -> bool {
    let is_wanted = |wanted: &String| match wanted.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == wanted,
    };
    let passes = INHERITED.contains(&name) || name.starts_with("LC_") || spec.env_pass.iter().any(is_wanted);
    passes && ![SpawnSpec::API_TOKEN, SpawnSpec::SOCKET].contains(&name) && !OF_THE_SUPERVISOR.contains(&name)
}

fn variable((name, value): (&str, String)) -> Vec<u8> {
    format!("{name}={value}").into_bytes()
}
