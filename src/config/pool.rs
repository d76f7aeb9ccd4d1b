//! The settings of a pool: a row for each.

use std::path::PathBuf;
use std::time::Duration;

use super::Limits;
use super::flow::yaml;
use super::limits::{self, OfAttempt};
use super::made::{Made, env, except, only, queue_priorities, queue_turns, queues, recycle, umask, workers};
use super::pool_values::{Env, Mode, Named, Wear, Workers};
use super::row::{Flag, Kind, Setting};
use super::section::{Section, settings};
use super::values::{shown_command, shown_env, shown_run, shown_workers};
use model::{Bytes, CutOff, Leftovers, Order};

settings! {
    /// The settings of a pool, in the file or on the command line.
    #[serde(deny_unknown_fields)]
    pub struct Pool("") => Made {
        /// The pool's name.
        name: String => (at pool.name) {
            docs: "of the pool; each has its own",
        }
        /// Number of slots of the pool.
        workers: Workers => (set workers, show shown_workers) {
            flags: &[
                Flag::new("workers.max", "workers", "N", Kind::Number(1, 65_535), "How many workers [default: {}]").short('w').env("TASKVISOR_WORKERS"),
                Flag::new("workers.min", "min-workers", "N", Kind::Number(1, 65_535), "How many of them at least; the others come when jobs wait [default: all]"),
            ],
            docs: "[how many](workers.md#choose-the-number-of-workers); or `{min: 2, max: 8}`; or [by the time of day](#pool-size-by-time-of-day)",
            conf: "How many workers (-w), or {min: 2, max: 8}: 2 always, and up to 8 while jobs wait (--min-workers). By the time of day: {max: 4, at: {\"0 8 * * mon-fri\": 16, \"0 20 * * *\": 4}, zone: UTC}.",
        }
        /// How its workers run jobs.
        mode: Mode => (show |made| made.pool.mode().into()) {
            default_in_docs: "`fork`; with `command` `prefork`",
            flags: &[
                Flag::new("mode", "mode", "MODE", Kind::Words(&["prefork", "fork", "coroutine"]), "One job after the other in a worker, a forked process for each, or many at a time [default: prefork; without COMMAND fork]").short('m'),
            ],
            docs: "`prefork`, `fork` or `coroutine`",
            conf: "fork: a process for each job. prefork: a worker runs one job after the other. coroutine: a worker runs many at a time. Without a command only fork is possible; with one the default is prefork (-m).",
        }
        /// Jobs at a time in one worker.
        concurrency: u32 => (show |made| made.pool.jobs_at_once.into()) {
            default_in_docs: "`100` in mode `coroutine`",
            flags: &[
                Flag::new("concurrency", "concurrency", "N", Kind::Number(1, 4_294_967_295), "Jobs at a time in one worker, in mode coroutine [default: 100]"),
            ],
            docs: "jobs at a time in one worker; 1 in the other modes",
            conf: "Jobs at a time in one worker: 100 in mode coroutine, elsewhere 1 (--concurrency).",
        }
        /// When to replace a worker by a new one.
        recycle: Wear => (at pool.recycle, set recycle) {
            default_in_docs: "nothing",
            flags: &[
                Flag::new("recycle.jobs", "max-jobs", "N", Kind::Number(1, u64::MAX), "Replace a worker after N jobs, in modes prefork and coroutine [default: never]"),
            ],
            docs: "`{jobs: N, age: DURATION, idle: DURATION, memory: SIZE}`: replace a healthy worker, in modes `prefork` and `coroutine`: after N jobs, at this age, after this time without work, or with more memory after a job. A quarter of the pool at most is away for it, and each worker may go a tenth beyond these numbers. The only worker of a pool takes jobs until the new one is ready, except with `jobs: 1`",
            conf: "Replace a healthy worker, in modes prefork and coroutine: after this number of jobs (--max-jobs), at this age, after this time without work, or if it has more memory than this after a job. It ends its jobs first. At most a quarter of the pool is away for it, and each worker may go a tenth beyond these numbers. null = never.",
        }
        /// Time from spawn to ready.
        boot_timeout: Duration => (at pool.boot_timeout) {
            flags: &[
                Flag::new("boot_timeout", "boot-timeout", "DURATION", Kind::Duration, "From the start of a worker until it must take jobs [default: {}]"),
            ],
            docs: "from the start of a worker to the moment it takes jobs",
            conf: "From the start of a worker to the moment it takes jobs (--boot-timeout).",
        }
        /// The command of its workers, which speak the worker protocol.
        command: Vec<Bytes> => (show shown_command) {
            apart: true,
            flags: &[
                Flag::new("command", "", "COMMAND", Kind::Command, "A worker that speaks the worker protocol, and its arguments"),
            ],
            docs: "workers that speak the protocol: a list, or one string, split as by a shell, without expansion",
            conf: "Workers that speak the worker protocol: a list, or one string that is split like a shell would, without any expansion (-- COMMAND). null = each job is a program of its own, as taskvisor put -- PROGRAM queues it.",
        }
        /// A program for each job, which gets the job's data on stdin.
        run: Vec<Bytes> => (show shown_run) {
            docs: "a program for each job, written likewise",
            conf: "Or: this program for each job, with the job's data on stdin.",
        }
        /// The queues from which it takes jobs.
        queues: Vec<String> => (set queues, show |made| yaml(&made.pool.queues)) {
            apart: true,
            flags: &[
                Flag::new("queues", "queue", "QUEUE", Kind::Texts, "Take jobs from this queue; several in this order [default: default]").short('q'),
            ],
            docs: "where the jobs come from",
            conf: "Where the jobs come from (-q).",
        }
        /// How to choose among the queues.
        order: Order => (at pool.order) {
            flags: &[
                Flag::new("order", "order", "ORDER", Kind::Words(&["ordered", "round_robin", "shuffled", "random", "lottery", "highest_priority_first", "highest_priority_lottery", "lottery_lottery", "reduced_lottery", "strict_priority", "priority_aging"]), "From which queue first: as given, in turn, by chance, priority or age [default: {}]"),
            ],
            docs: "[from which queue](#the-order-of-queues) a fetch takes jobs",
            conf: "ordered: from the first queue that has a job. round_robin: from each in turn. shuffled: in turn, in a new order for each fetch (--order). By priority: strict_priority, highest_priority_first, highest_priority_lottery, priority_aging. By chance: random, lottery, lottery_lottery, reduced_lottery. docs/configuration.md says which is for what.",
        }
        /// The priorities of its queues.
        queue_priorities: Named<u64> => (set queue_priorities, show |made| yaml(&made.pool.queue_priorities)) {
            default_in_docs: "`{}`: all 5",
            docs: "`{QUEUE: N}`: from 1 to 100, higher comes first or has more tickets in a lottery",
            conf: "The priorities of its queues, from 1 to 100; 5 where it says nothing: {mail: 80, reports: 10}.",
        }
        /// How many jobs its queues give in a row once a lottery has drawn them.
        queue_turns: Named<u64> => (set queue_turns, show |made| yaml(&made.pool.queue_turns)) {
            default_in_docs: "`{}`: all 1, with SQS 10",
            docs: "`{QUEUE: N}`, from 1 to 10000: how many jobs in a row a queue gives once a lottery has drawn it. Its share is its priority times its turn",
            conf: "How many jobs in a row a queue gives once a lottery has drawn it: {mail: 50}. 1 where it says nothing, with SQS 10.",
        }
        /// Take only these classes.
        classes: Vec<String> => (set only, show |made| yaml(&made.pool.filter.only)) {
            default_in_docs: "`[]`: all",
            flags: &[
                Flag::new("classes", "class", "CLASS", Kind::Texts, "Take jobs of this class only; mail.* takes all classes that begin with mail. (repeatable)"),
            ],
            docs: "take these classes only: names, or a beginning and a `*`, as `mail.*`",
            conf: "Take these classes only, by name or by a beginning and *, as in mail.* ([] = all), but none of those (--class).",
        }
        /// Do not take these classes.
        except_classes: Vec<String> => (set except, show |made| yaml(&made.pool.filter.except)) {
            docs: "but none of these",
        }
        /// Limits of an attempt.
        limits: Limits => (set limits::of_pool, show |made| Limits::shown(&OfAttempt::of(made)).into()) {
            conf: "Limits of an attempt; null = none. A job may set its own time limit, and a class all but the last three. A size is a number with a unit: 64kB, 512MB, 1GiB.",
        }
        /// The same for classes.
        class_limits: Named<Limits> => (set limits::of_classes) {
            default: "{}",
            docs: "the first six for classes: `{mail.Send: {memory: 1GB}}`; wins over what their code says",
            conf: "The same for classes by their whole names, as {mail.Send: {memory: 1GB}}; wins over what their code says.",
        }
        /// Tries after the first one.
        retries: u32 => (at pool.retry.retries) {
            default_in_docs: "`0`; with `command` `5`",
            flags: &[
                Flag::new("retries", "retries", "N", Kind::Number(0, 4_294_967_295), "Tries after the first one, for jobs that do not say [default: 0; with COMMAND 5]"),
            ],
            docs: "tries after the first one, for jobs that bring none",
            conf: "Tries after the first one, for jobs that bring none (--retries). With a command: 5.",
        }
        /// Wait before the first retry.
        retry_delay: Duration => (at pool.retry.delay) {
            docs: "the wait before the first retry, doubled for each later one; for jobs put without `--retries`",
            conf: "The wait before the first retry; doubled for each later one, up to the cap.",
        }
        /// The longest wait before a retry.
        retry_cap: Duration => (at pool.retry.cap) {
            docs: "the longest such wait",
        }
        /// Time from TERM to KILL.
        grace: Duration => (at pool.grace) {
            flags: &[
                Flag::new("grace", "grace", "DURATION", Kind::Duration, "From TERM to KILL [default: {}]"),
            ],
            docs: "from TERM to KILL",
            conf: "From TERM to KILL (--grace).",
        }
        /// The same for a job that another supervisor may already run.
        lost_grace: Duration => (at pool.lost_grace) {
            docs: "the same for a job that somebody else may run already (`lock_lost`, `moved`). A worker with several jobs has at least 1 s to end that one alone",
            conf: "The same for a job that somebody else may run already, since the broker has taken it from us: 0s = KILL at once. A worker with several jobs at a time has 1s at the least to end that one alone.",
        }
        /// What to do with jobs when the broker does not answer.
        when_cut_off: CutOff => (at pool.when_cut_off) {
            docs: "a job whose lease ends because [the broker does not answer](redis.md#a-redis-that-is-away): `kill` ends it before; with `carry_on` it runs on, perhaps on two hosts",
            conf: "What becomes of a job whose lease ends because the broker does not answer: kill, before another host may run it, or carry_on: it runs on, perhaps on two hosts, and is ended when the broker says that it is not ours any more.",
        }
        /// What to do with orphans of a job.
        leftovers: Leftovers => (at spec.leftovers) {
            docs: "[processes that a job leaves](workers.md#leftovers) in mode `prefork`: `report` names them, `kill` kills them too",
            conf: "What becomes of processes that a job leaves behind in a worker of mode prefork: report or kill.",
        }
        /// The environment of its processes.
        env: Env => (set env, show shown_env) {
            apart: true,
            flags: &[
                Flag::new("env", "env", "NAME[=VALUE]", Kind::Texts, "Pass this variable to the workers, or set it; may be given several times"),
            ],
            conf: "The environment of the workers: a few variables of the supervisor's, such as PATH, HOME and LANG, and these.",
        }
        /// The working directory of its processes.
        cwd: PathBuf => (at spec.cwd) {
            default_in_docs: "`null`: the supervisor's",
            flags: &[
                Flag::new("cwd", "cwd", "DIR", Kind::Path, "Where they work"),
            ],
            docs: "where they work; must exist",
            conf: "Where the workers work; a relative path is from the directory where start was typed (--cwd). null = there.",
        }
        /// Whether each job gets an empty directory.
        sandbox: bool => (at spec.sandbox) {
            flags: &[
                Flag::new("sandbox", "sandbox", "", Kind::Switch, "Give each job an empty directory to work in").not_with("cwd"),
            ],
            docs: "give each job an empty directory to work in; not with `cwd`, nor in mode `coroutine`",
            conf: "Give each job an empty directory to work in; not together with cwd, and not for mode coroutine (--sandbox).",
        }
        /// Their file mode creation mask, octal.
        umask: String => (set umask, show |made| yaml(&made.spec.umask.map(|mask| format!("{mask:03o}")))) {
            default_in_docs: "`null`: the supervisor's, or the job's own",
            docs: "octal, as `\"022\"`",
            conf: "The mask of modes, as \"022\". null = the supervisor's, or the one that a job brings.",
        }
        /// Their user: a name or a number.
        user: String {
            default: "null",
            default_in_docs: "`null`: the supervisor's",
            docs: "name or number; only root can set another",
            conf: "User and group of the workers, by name or number; only root can set others. null = the supervisor's user and group, or the group of the user.",
        }
        /// Their group: a name or a number.
        group: String {
            default: "null",
            default_in_docs: "`null`: that of the user",
            docs: "name or number; only root can set another",
        }
    }
}

impl Pool {
    /// The settings of the command line, and those of the file where it has none.
    #[must_use]
    pub fn typed_over(self, file: Pool) -> Pool {
        // Both settings name the workers' program.
        let run = file.run.filter(|_| self.command.is_none());
        self.over(Pool { run, ..file })
    }
}
