//! Rules about one pool.

use std::time::Duration;

use super::subject::{Advice, Pool, advice};
use crate::secret::may_be_secret;
use crate::{facts::Rights, format_duration};
use model::{Class, Leftovers, Order, QueueName, Retry, Work};

type Rule = fn(&Pool) -> Option<Advice>;

/// One row for each rule.
pub(super) const RULES: [(&str, Rule); 25] = [
    ("grace-beyond-stop", grace_beyond_stop),
    ("no-grace", no_grace),
    ("short-boot", short_boot),
    ("delay-above-cap", delay_above_cap),
    ("cap-not-reached", cap_not_reached),
    ("delay-without-retries", delay_without_retries),
    ("classes-undone", classes_undone),
    ("exception-of-nothing", exception_of_nothing),
    ("queue-twice", queue_twice),
    ("queue-list", queue_list),
    ("priorities-unused", priorities_unused),
    ("priority-of-none", priority_of_none),
    ("turns-unused", turns_unused),
    ("turn-of-none", turn_of_none),
    ("priorities-equal", priorities_equal),
    ("order-of-one", order_of_one),
    ("life-below-concurrency", life_below_concurrency),
    ("life-below-boot", life_below_boot),
    ("leftovers-unused", leftovers_unused),
    ("umask", umask),
    ("program-open", program_open),
    ("program-closed", program_closed),
    ("cwd-closed", cwd_closed),
    ("passes-all", passes_all),
    ("secret-readable", secret_readable),
];

fn grace_beyond_stop(pool: &Pool) -> Option<Advice> {
    let (grace, stop) = (pool.settings.grace, pool.whole.config.settings.stop_deadline);
    // TERM is sent one grace before the deadline.
    if grace < stop {
        return None;
    }
    let (grace, stop) = (format_duration(grace), format_duration(stop));
    let message = format!(
        "a grace of {grace} does not fit into a stop_deadline of {stop}: at a stop its jobs get TERM at once"
    );
    Some(advice("grace", message, format!("set stop_deadline above {grace}, or a shorter grace")))
}

fn no_grace(pool: &Pool) -> Option<Advice> {
    let message = "KILL follows TERM at once: no job can put its things in order";
    pool.settings.grace.is_zero().then(|| advice("grace", message, "set a grace of a second or more"))
}

/// An application takes about this long to load; a program that gets its job as arguments loads at once.
fn short_boot(pool: &Pool) -> Option<Advice> {
    let least = match pool.spec.work {
        Work::Command(_) => Duration::from_secs(1),
        Work::Programs | Work::Run(_) => Duration::from_millis(100),
    };
    let given = format_duration(pool.settings.boot_timeout);
    let message =
        format!("a worker that is not ready within {given} is killed, and with a loaded machine any may be");
    (pool.settings.boot_timeout < least)
        .then(|| advice("boot_timeout", message, format!("set {} or more", format_duration(least))))
}

fn delay_above_cap(pool: &Pool) -> Option<Advice> {
    let Retry { retries, delay, cap } = pool.settings.retry;
    let (delay_text, cap_text) = (format_duration(delay), format_duration(cap));
    let message = format!("retry_delay is {delay_text}, above retry_cap, so every wait is {cap_text}");
    (retries > 0 && delay > cap).then(|| advice("retry_delay", message, "set retry_delay below retry_cap"))
}

fn cap_not_reached(pool: &Pool) -> Option<Advice> {
    let Retry { retries, delay, cap } = pool.settings.retry;
    // Each wait is twice the one before.
    let longest = delay.saturating_mul(2u32.saturating_pow(retries.saturating_sub(1)));
    if retries == 0 || longest >= cap || cap == Retry::NONE.cap {
        return None;
    }
    let (longest, cap) = (format_duration(longest), format_duration(cap));
    let message = format!("retry_cap {cap} is never reached: the last of {retries} waits is {longest}");
    Some(advice("retry_cap", message, "set more retries or a longer retry_delay, or leave retry_cap out"))
}

fn delay_without_retries(pool: &Pool) -> Option<Advice> {
    let retry = pool.settings.retry;
    let setting = if retry.delay == Retry::NONE.delay { "retry_cap" } else { "retry_delay" };
    let message = format!("{setting} says how long to wait before a retry, and retries is 0");
    (retry.retries == 0 && retry != Retry::NONE)
        .then(|| advice(setting, message, "set retries, or leave it out"))
}

/// Whether every class for which one name stands is covered by the other.
fn covers(wide: &Class, narrow: &Class) -> bool {
    match (wide.as_str().strip_suffix('*'), narrow.as_str().strip_suffix('*')) {
        (Some(wide), Some(narrow)) => narrow.starts_with(wide),
        (Some(wide), None) => narrow.as_str().starts_with(wide),
        (None, Some(_)) => false,
        (None, None) => wide == narrow,
    }
}

fn classes_undone(pool: &Pool) -> Option<Advice> {
    let filter = &pool.settings.filter;
    let undone = |only: &Class| filter.except.iter().any(|except| covers(except, only));
    // An exception of all classes covers them also where no class is named.
    let all = Class::from("*");
    if undone(&all) || (!filter.only.is_empty() && filter.only.iter().all(undone)) {
        let hint = "leave out of except_classes what the pool is to take";
        return Some(advice("except_classes", "except_classes leaves no class: the pool takes no job", hint));
    }
    let lost = filter.only.iter().find(|only| undone(only))?;
    let message = format!("'{lost}' in classes has no effect: except_classes takes it away");
    Some(advice("except_classes", message, "leave it out of one of them"))
}

fn exception_of_nothing(pool: &Pool) -> Option<Advice> {
    let filter = &pool.settings.filter;
    let meets = |except: &Class| filter.only.iter().any(|only| covers(only, except) || covers(except, only));
    let idle = filter.except.iter().find(|except| !filter.only.is_empty() && !meets(except))?;
    let message = format!("'{idle}' in except_classes has no effect: classes does not let it in");
    Some(advice("except_classes", message, "is it misspelled?"))
}

fn queue_twice(pool: &Pool) -> Option<Advice> {
    let queues = &pool.settings.queues;
    let (_, twice) = queues.iter().enumerate().find(|(at, queue)| queues[..*at].contains(queue))?;
    Some(advice(
        "queues",
        format!("the queue '{twice}' is named twice, which gives it no more"),
        "name it once",
    ))
}

/// `-q a,b` is one queue, where other programs would take it for two.
fn queue_list(pool: &Pool) -> Option<Advice> {
    let queue = pool.settings.queues.iter().find(|queue| queue.as_str().contains(','))?;
    let names: Vec<&str> = queue.as_str().split(',').map(str::trim).collect();
    let message = format!("'{queue}' is the name of one queue, which has a comma in it");
    let hint =
        format!("for several queues name each: queues: [{}], or -q {}", names.join(", "), names.join(" -q "));
    Some(advice("queues", message, hint))
}

fn priorities_unused(pool: &Pool) -> Option<Advice> {
    let (order, said) = (pool.settings.order, !pool.settings.queue_priorities.is_empty());
    let message = format!("queue_priorities has no effect: order {} does not look at it", order.as_str());
    let hint = "set order to reduced_lottery or strict_priority, or leave queue_priorities out";
    (said && !order.uses_priorities()).then(|| advice("queue_priorities", message, hint))
}

fn priority_of_none(pool: &Pool) -> Option<Advice> {
    of_none(pool, "queue_priorities", pool.settings.queue_priorities.keys())
}

fn turn_of_none(pool: &Pool) -> Option<Advice> {
    of_none(pool, "queue_turns", pool.settings.queue_turns.keys())
}

/// A setting of a queue from which the pool takes no jobs.
fn of_none<'a>(
    pool: &Pool,
    setting: &'static str,
    mut queues: impl Iterator<Item = &'a QueueName>,
) -> Option<Advice> {
    let queue = queues.find(|queue| !pool.settings.queues.contains(queue))?;
    let message = format!("{setting}.{queue} has no effect: the pool takes no jobs from that queue");
    Some(advice(format!("{setting}.{queue}"), message, "name it in queues too, or is it misspelled?"))
}

fn turns_unused(pool: &Pool) -> Option<Advice> {
    let (order, said) = (pool.settings.order, !pool.settings.queue_turns.is_empty());
    let message = format!("queue_turns has no effect: order {} draws no queue", order.as_str());
    let hint = "set order to reduced_lottery, or leave queue_turns out";
    (said && !order.draws()).then(|| advice("queue_turns", message, hint))
}

fn priorities_equal(pool: &Pool) -> Option<Advice> {
    let order = pool.settings.order;
    let mut priorities = pool.settings.queues_by_priority().map(|(_, priority)| priority);
    let first = priorities.next()?;
    // Without priorities the oldest job comes first, which may well be intended.
    let looks = order.uses_priorities() && order != Order::PriorityAging;
    if !looks || pool.settings.queues.len() < 2 || priorities.any(|priority| priority != first) {
        return None;
    }
    let message = format!("order {} goes by priorities, and all its queues have {first}", order.as_str());
    Some(advice("order", message, "give them queue_priorities, as {high: 80, low: 10}"))
}

fn order_of_one(pool: &Pool) -> Option<Advice> {
    let (order, queues) = (pool.settings.order, &pool.settings.queues);
    let message = format!("order {} chooses among queues, and there is only one", order.as_str());
    (order != Order::Ordered && queues.len() == 1)
        .then(|| advice("order", message, "name more queues, or leave order out"))
}

fn life_below_concurrency(pool: &Pool) -> Option<Advice> {
    let (at_once, life) = (u64::from(pool.settings.jobs_at_once), pool.settings.recycle.jobs?);
    let message = format!("a worker ends after {life} jobs, so it never has the {at_once} of concurrency");
    (life < at_once).then(|| advice("recycle.jobs", message, "set recycle.jobs well above concurrency"))
}

fn life_below_boot(pool: &Pool) -> Option<Advice> {
    let (age, boot) = (pool.settings.recycle.age?, pool.settings.boot_timeout);
    let (age_text, boot_text) = (format_duration(age), format_duration(boot));
    let message = format!(
        "a worker may take {boot_text} until it is ready, and at the age of {age_text} it is recycled: it may never have a job"
    );
    (age <= boot).then(|| {
        advice(
            "recycle.age",
            message,
            format!("set recycle.age well above {boot_text}, or a shorter boot_timeout"),
        )
    })
}

fn leftovers_unused(pool: &Pool) -> Option<Advice> {
    let mode = pool.settings.mode();
    let message = format!("leftovers has no effect in mode {mode}");
    let hint = "in mode fork they are always killed; in mode coroutine nobody knows whose they are";
    (mode != "prefork" && pool.spec.leftovers == Leftovers::Kill).then(|| advice("leftovers", message, hint))
}

fn umask(pool: &Pool) -> Option<Advice> {
    let mask = pool.spec.umask?;
    if mask & 0o700 != 0 {
        let message = format!(
            "a umask of {mask:03o} takes rights from the workers' own user: they cannot use what they make"
        );
        return Some(advice("umask", message, "022, or 077 for files that are nobody else's"));
    }
    let message = format!("a umask of {mask:03o} makes files that everybody may write");
    (mask & 0o002 == 0).then(|| advice("umask", message, "022, or 077 for files that are nobody else's"))
}

/// The setting that names the pool's program.
fn work(pool: &Pool) -> &'static str {
    match pool.spec.work {
        Work::Run(_) => "run",
        Work::Programs | Work::Command(_) => "command",
    }
}

fn program_open(pool: &Pool) -> Option<Advice> {
    let program = pool.facts.program.as_ref()?;
    let user = pool.spec.identity.as_ref().map_or(pool.whole.facts.uid, |identity| identity.uid);
    let message = who_may_change(program, &[0, pool.whole.facts.uid, user])?;
    Some(advice(work(pool), message, "chmod o-w and chown it, and its directory"))
}

/// Who may change a file, apart from the allowed users.
pub(super) fn who_may_change(file: &Rights, allowed: &[u32]) -> Option<String> {
    let path = file.path.display();
    match file.writable {
        true => Some(format!("everybody on this machine may change {path}")),
        false if !allowed.contains(&file.owner) => Some(format!("uid {} may change {path}", file.owner)),
        false => None,
    }
}

fn program_closed(pool: &Pool) -> Option<Advice> {
    let (closed, user) = (pool.facts.program_closed.as_ref()?, pool.spec.identity.as_ref()?);
    let message =
        format!("user '{}' may not run its program: {} is closed to it", user.name, closed.display());
    Some(advice(work(pool), message, "chmod it, or set another user or group"))
}

fn cwd_closed(pool: &Pool) -> Option<Advice> {
    let (closed, user) = (pool.facts.cwd_closed.as_ref()?, pool.spec.identity.as_ref()?);
    let message = format!("user '{}' may not enter its cwd: {} is closed to it", user.name, closed.display());
    Some(advice("cwd", message, "chmod it, or set another user or group"))
}

/// A flag gives away the variables of whoever types it; a file those of everybody who starts with it.
fn passes_all(pool: &Pool) -> Option<Advice> {
    let message = "the workers see every variable of the supervisor, its tokens and passwords too";
    let passed = pool.whole.origins.in_file(Some(pool.index), "env.pass")?.as_sequence()?;
    let all = passed.iter().any(|name| name == "*");
    all.then(|| advice("env.pass", message, "name in env.pass those that they need"))
}

fn secret_readable(pool: &Pool) -> Option<Advice> {
    let file = pool.whole.facts.file.as_ref().filter(|file| file.readable)?;
    let (name, _) = pool.spec.env_set.iter().find(|(name, value)| may_be_secret(name, value))?;
    let path = file.path.display();
    let message = format!("{name} looks like a secret, and everybody on this machine may read {path}");
    let hint = format!("chmod 600 {path}, or give it to start as a variable and name it in env.pass");
    pool.says("env.set").then(|| advice(format!("env.set.{name}"), message, hint))
}
