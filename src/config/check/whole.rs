//! Rules about the settings as a whole on this machine.

use super::pool::who_may_change;
use super::subject::{Advice, Whole, advice};
use crate::facts::Disk;
use crate::{Api, format_duration, need};

type Rule = fn(&Whole) -> Option<Advice>;

/// One row for each rule.
pub(super) const RULES: [(&str, Rule); 14] = [
    ("state-in-memory", state_in_memory),
    ("config-open", config_open),
    ("token-in-clear", token_in_clear),
    ("names-missing", names_missing),
    ("programs-by-tcp", programs_by_tcp),
    ("tasks-off", tasks_off),
    ("tasks-unserved", tasks_unserved),
    ("lease-of-none", lease_of_none),
    ("lease-not-longer", lease_not_longer),
    ("too-many-workers", too_many_workers),
    ("memory", memory),
    ("processes", processes),
    ("descriptors", descriptors),
    ("cpu-time", cpu_time),
];

/// Number of workers on one processor that may all be waiting for something; more are hardly useful.
const WORKERS_PER_CPU: u64 = 32;
/// A process that does anything has at least this much memory of its own.
const WORKER_MEMORY: u64 = 8 << 20;

/// The slots of all pools, including those of templates.
fn places(whole: &Whole) -> u64 {
    let of_pool = |pool: &model::PoolSettings| u64::from(pool.most_workers()) + u64::from(pool.template);
    whole.config.settings.pools.iter().map(of_pool).sum()
}

/// The setting to change is that of the largest pool; this is the section that they share.
const SETTING: &str = "pools";

fn state_in_memory(whole: &Whole) -> Option<Advice> {
    let dir = whole.config.state_dir.display();
    let message = format!("{dir} is kept in memory: jobs and logs are gone when the machine stops");
    (whole.facts.state == Disk::Memory)
        .then(|| advice("state_dir", message, "give a path on a disk, or on a volume that lasts"))
}

fn tasks_off(whole: &Whole) -> Option<Advice> {
    let settings = ["wq.class", "wq.listen", "wq.success_ttl", "wq.failure_ttl"];
    let said = settings.into_iter().find(|setting| whole.origins.says(None, setting));
    let message = "notifications are not taken in, so this has no effect";
    let setting = said.filter(|_| whole.config.tasks.is_none())?;
    Some(advice(setting, message, "set wq.enabled: true"))
}

fn tasks_unserved(whole: &Whole) -> Option<Advice> {
    let queue = &whole.config.tasks.as_ref()?.queue;
    let is_served = whole.config.settings.pools.iter().any(|pool| pool.queues.contains(queue));
    let message = format!("notifications wait in queue '{queue}', and no pool takes jobs from it");
    let hint = format!("give a pool this queue: queues: [{queue}]");
    (!is_served).then(|| advice("wq.queue", message, hint))
}

fn lease_of_none(whole: &Whole) -> Option<Advice> {
    let leases = whole.config.broker.leases();
    let is_taken = |queue| whole.config.settings.pools.iter().any(|pool| pool.queues.contains(queue));
    let queue = leases.keys().find(|queue| !is_taken(queue))?;
    let message = format!("its lease={queue}:… has no effect: no pool takes jobs from that queue");
    Some(advice("broker", message, "name it in queues of a pool, or is it misspelled?"))
}

fn lease_not_longer(whole: &Whole) -> Option<Advice> {
    let (lease, leases) = (whole.config.settings.lease, whole.config.broker.leases());
    let (queue, time) = leases.into_iter().find(|(_, time)| *time <= lease)?;
    let [own, lease] = [time, lease].map(format_duration);
    let message = format!("its lease={queue}:{own} has no effect: the lease of all queues is {lease}");
    let hint = "leave it out; or make lease shorter, and give the other queues longer ones";
    Some(advice("broker", message, hint))
}

fn config_open(whole: &Whole) -> Option<Advice> {
    let file = whole.facts.file.as_ref()?;
    let message = format!("{}, and with it what is run here", who_may_change(file, &[0, whole.facts.uid])?);
    Some(advice("config", message, "chmod o-w and chown it, and its directory"))
}

/// The API, if it listens to more than this machine.
fn open_api<'a>(whole: &Whole<'a>) -> Option<&'a Api> {
    whole.config.api.as_ref().filter(|api| !api.listen.ip().is_loopback())
}

fn token_in_clear(whole: &Whole) -> Option<Advice> {
    let listen = open_api(whole)?.listen;
    let message = format!("by {listen} the token and the data of jobs travel in clear");
    Some(advice("api.listen", message, "listen on 127.0.0.1 and put a proxy with TLS before it"))
}

fn names_missing(whole: &Whole) -> Option<Advice> {
    // The gate refuses a request for any other name, as DNS rebinding would make one.
    let api = open_api(whole).filter(|api| api.hosts.is_empty())?;
    let message =
        format!("{} is open to other machines, and no name they could call it by is accepted", api.listen);
    Some(advice("api.listen", message, "list the names or addresses that they use in api.hosts"))
}

fn programs_by_tcp(whole: &Whole) -> Option<Advice> {
    let message = "whoever has the token can run any program as the supervisor's user";
    let allowed = whole.config.api.as_ref().is_some_and(|api| api.allow_exec);
    allowed.then(|| advice("api.allow_exec", message, "put jobs of classes that your workers know"))
}

fn too_many_workers(whole: &Whole) -> Option<Advice> {
    let (places, cpus) = (places(whole), whole.facts.cpus);
    let message = format!("{places} workers share {cpus} processors");
    let hint = format!("{WORKERS_PER_CPU} for each are many; jobs that mostly wait fit into mode coroutine");
    (places > WORKERS_PER_CPU * cpus).then(|| advice(SETTING, message, hint))
}

fn memory(whole: &Whole) -> Option<Advice> {
    let (places, memory) = (places(whole), whole.facts.memory?);
    let each = memory / places.max(1) / 1024 / 1024;
    let message = format!("{places} workers share {} MiB of memory: {each} MiB for each", memory >> 20);
    (memory < places * WORKER_MEMORY).then(|| advice(SETTING, message, "set fewer workers"))
}

fn processes(whole: &Whole) -> Option<Advice> {
    let (places, most) = (places(whole), whole.facts.processes?);
    let message = format!("{places} workers, and this user or cgroup may have {most} processes");
    let hint = "set fewer workers, or raise ulimit -u, kernel.pid_max or TasksMax=";
    // Each worker, and what its job starts.
    (places * 2 > most).then(|| advice(SETTING, message, hint))
}

fn cpu_time(whole: &Whole) -> Option<Advice> {
    let most = whole.facts.cpu_time?;
    let message = format!(
        "each process may use {most} s of CPU time: a job ends by SIGXCPU, and at the hard limit the kernel kills the \
         supervisor or the keeper, and with it all jobs"
    );
    let hint = "set limits.cpu for jobs, and no LimitCPU= or ulimit -t where taskvisor is started";
    Some(advice(SETTING, message, hint))
}

fn descriptors(whole: &Whole) -> Option<Advice> {
    let (places, most) = (places(whole), whole.facts.descriptors?);
    let needed = need::descriptors(places);
    let message = format!("{places} workers need {needed} descriptors, and a process may have {most}");
    (needed > most)
        .then(|| advice(SETTING, message, "set fewer workers, or raise ulimit -Hn or LimitNOFILE="))
}
