//! Queues: their statistics, their counts, and their removal.

use std::collections::BTreeMap;

use redis::Value;

use super::ask::{LOOKS, asked};
use super::reply::{array, kept, number, parts, some_number, text};
use super::shared::Shared;
use super::{failures, indices};
use broker::Error;
use model::verb::{Act, Bulk, Forget, QueueDay, Stats, Swept, Times};
use model::{Day, Filter, JobState, Millis, Pause, QueueCounts, QueueName, Sum, Today};

/// Number of queues to count in one call: a limit on how long it blocks the server.
const QUEUES: usize = 200;
/// Days for which statistics are kept.
const DAYS: u32 = 91;

/// The statistics of a queue on a day.
pub(super) async fn stats(redis: &Shared, it: &Stats) -> Result<QueueDay, Error> {
    let answer = asked(redis, "taskvisor.stats", |cmd| {
        cmd.arg(it.queue.as_str()).arg(it.day.map_or_else(|| "today".into(), |day| day.0.to_string()));
    });
    let [day, wait, run, tally] = parts(answer.await?)?;
    let [retries, failures, failed] = parts(tally)?;
    let count = |value: &Value| u64::try_from(number::<i64>(value)).unwrap_or(0);
    Ok(QueueDay {
        queue: it.queue.clone(),
        day: Day(number(&day)),
        wait: times(wait)?,
        run: times(run)?,
        retries: count(&retries),
        failures: count(&failures),
        failed: count(&failed),
    })
}

/// Reads the script's figures of a queue for today.
pub(super) fn today(figures: Value) -> Result<Today, Error> {
    let [wait, run, tally] = parts(figures)?;
    let sum = |fields: Value| {
        let [total, mean] = parts(fields)?;
        let (count, mean) = (number::<u64>(&total), text(&mean).and_then(|mean| mean.parse::<f64>().ok()));
        Ok::<_, Error>(Sum { count, seconds: count as f64 * mean.unwrap_or(0.0) })
    };
    let [retries, failures, failed] = parts(tally)?;
    let count = |value: &Value| u64::try_from(number::<i64>(value)).unwrap_or(0);
    Ok(Today {
        wait: sum(wait)?,
        run: sum(run)?,
        retries: count(&retries),
        failures: count(&failures),
        failed: count(&failed),
    })
}

/// Reads times from the fields of a hash; its other fields are counts of a histogram.
fn times(fields: Value) -> Result<Times, Error> {
    let (mut times, mut vk) = (Times::default(), 0.0);
    let mut histogram: BTreeMap<u32, u64> = BTreeMap::new();
    for pair in array(fields)?.chunks_exact(2) {
        let real = || text(&pair[1]).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        match text(&pair[0]).unwrap_or_default().as_str() {
            "total" => times.count = number(&pair[1]),
            "mean" => times.mean = real(),
            "vk" => vk = real(),
            bucket => {
                if let Some(start) = bucket_start(bucket) {
                    *histogram.entry(start).or_default() += number::<u64>(&pair[1]);
                }
            }
        }
    }
    // qless sums squared deviations in `vk` as it goes (Welford's method).
    let std = if times.count > 1 { (vk / (times.count - 1) as f64).max(0.0).sqrt() } else { 0.0 };
    Ok(Times { std, histogram, ..times })
}

/// Where a bucket begins, in seconds: `m3` is the fourth minute. The last bucket has everything longer than six days.
fn bucket_start(bucket: &str) -> Option<u32> {
    const DAY: u32 = 86_400;
    let width = match bucket.get(..1)? {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => DAY,
        _ => return None,
    };
    let number: u32 = bucket.get(1..)?.parse().ok()?;
    Some(number.saturating_mul(width).min(6 * DAY))
}

/// Removes a queue when it is empty. With `discard` it first removes the ended jobs, one part for each call. If
/// anything keeps the queue, it fails before it removes a job.
pub(super) async fn forget(redis: &Shared, it: &Forget, by: &str) -> Result<Swept, Error> {
    refuse_unless_free(redis, it, it.discard).await?;
    let swept = if it.discard { sweep(redis, it, by).await? } else { Swept::default() };
    if swept.next.is_some() {
        return Ok(swept);
    }
    for _ in 0..LOOKS {
        // Before each try: jobs may have come since the last.
        refuse_unless_free(redis, it, false).await?;
        let gone = asked(redis, "taskvisor.forget", |cmd| {
            cmd.arg(it.queue.as_str()).arg(DAYS);
        });
        if gone.await? == Value::Int(1) {
            return Ok(swept);
        }
    }
    Err(Error::Failed(format!("jobs keep coming into queue '{}': try again", it.queue)))
}

/// The states of jobs that are removed with their queue. Held jobs wait for a person.
const GO: [JobState; 3] = [JobState::Complete, JobState::Failed, JobState::Canceled];

async fn sweep(redis: &Shared, it: &Forget, by: &str) -> Result<Swept, Error> {
    let queue = Some(it.queue.clone());
    let filter = Filter { states: GO.into(), queue: queue.clone(), ..Filter::default() };
    let all = Bulk {
        act: Act::Discard,
        state: JobState::Complete,
        group: None,
        class: None,
        queue,
        since: None,
        limit: None,
        dry_run: false,
        after: it.after,
    };
    failures::sweep_of(redis, &all, &filter, by).await
}

/// Fails if the queue is still in use.
async fn refuse_unless_free(redis: &Shared, it: &Forget, ended_go: bool) -> Result<(), Error> {
    let counts = counts(redis).await?;
    let found = counts.get(&it.queue).ok_or_else(|| Error::NoQueue(it.queue.clone()))?;
    let stays = |state: &JobState| !(ended_go && GO.contains(state));
    let count = |state: JobState| Some((state, *found.jobs.get(&state)?)).filter(|(state, _)| stays(state));
    let has: Vec<_> = JobState::ALL.into_iter().filter_map(count).collect();
    let has: Vec<_> = has.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let why = if !has.is_empty() {
        let jobs = has.join(", ");
        format!("it has jobs ({jobs}); those that have ended can be discarded, unless others depend on them")
    } else if found.paused.is_some() {
        "it is paused, and jobs that are put into it later would run: resume it first".into()
    } else {
        return Ok(());
    };
    Err(Error::InUse(it.queue.clone(), why))
}

/// The jobs of each queue by state, and the queue's pause and limits.
pub(super) async fn counts(redis: &Shared) -> Result<BTreeMap<QueueName, QueueCounts>, Error> {
    let (names, all_ended) = tokio::try_join!(indices::queues(redis), indices::scan(redis, "ended"))?;
    let (names, mut queues): (Vec<_>, _) = (names.into_iter().collect(), Vec::new());
    for some in names.chunks(QUEUES) {
        let answer = asked(redis, "taskvisor.queues", |cmd| {
            cmd.arg(some);
        });
        queues.extend(array(answer.await?)?);
    }
    let mut counts: BTreeMap<QueueName, QueueCounts> = BTreeMap::new();
    for queue in queues {
        let [name, waiting, delayed, depends, running, canceling, oldest, is_paused, paused, most, on_day] =
            parts(queue)?;
        let jobs = [
            (JobState::Waiting, waiting),
            (JobState::Delayed, delayed),
            (JobState::Depends, depends),
            (JobState::Running, running),
            (JobState::Canceling, canceling),
        ];
        let jobs =
            jobs.into_iter().map(|(state, count)| (state, number(&count))).filter(|(_, count)| *count > 0);
        // A client of qless pauses a queue without a word about who did it.
        let paused = kept(&paused).or_else(|| {
            let unknown = Pause { since: Millis(0), by: "another program".into(), reason: None };
            (number::<u8>(&is_paused) == 1).then_some(unknown)
        });
        let counted = QueueCounts {
            jobs: jobs.collect(),
            oldest_waiting: some_number(&oldest).map(Millis),
            paused: paused.filter(|_| number::<u8>(&is_paused) == 1),
            max_concurrency: Some(number(&most)).filter(|most| *most > 0),
            today: today(on_day)?,
            unserved: false,
        };
        counts.insert(text(&name).unwrap_or_default().into(), counted);
    }
    for pair in all_ended.chunks_exact(2) {
        let (Some(name), count) = (text(&pair[0]), number::<u64>(&pair[1])) else { continue };
        // These names are STATE:QUEUE; a queue's name may have a colon, too.
        let Some((state, queue)) = name.split_once(':') else { continue };
        let (Ok(state), true) = (state.parse(), count > 0) else { continue };
        counts.entry(queue.into()).or_default().jobs.insert(state, count);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::bucket_start;

    #[test]
    fn histogram_buckets_begin_where_their_names_say() {
        let names = ["s0", "s59", "m1", "h23", "d1", "d9", "total", "s-1", ""];
        let starts =
            [Some(0), Some(59), Some(60), Some(82_800), Some(86_400), Some(518_400), None, None, None];
        assert_eq!(names.map(bucket_start), starts);
    }
}
