//! The presence of the supervisors that share a Redis: publishes this one's, and lists all of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Cmd, Value};
use serde::{Deserialize, Serialize};

use super::ask::asked;
use super::reply::{self, array, number, parts, some_number, text};
use super::shared::Shared;
use broker::Error;
use common::lock;
use model::verb::ShowFleet;
use model::{Fleet, Instance, Member, MemberJob, Millis, PoolSign, Presence, QueueSet, Stop};
use redis_link::Offset;

/// How often a supervisor publishes its presence; the same request checks that its listener works.
pub(super) const EVERY: Duration = Duration::from_secs(15);
/// The same beside workers of other programs: their scripts do not announce all changes, and this request finds those.
const EVERY_BESIDE_STRANGERS: Duration = Duration::from_secs(2);
/// Shortest time between two publications while only the number of running jobs changes.
pub(super) const PAUSE: Duration = Duration::from_secs(3);
/// A supervisor that was silent for this long has missed one publication, and has had time for another.
const SILENT: Duration = Duration::from_secs(40);
/// A supervisor that was not silent for longer than this lives, or has just died.
const FRESH: Duration = Duration::from_secs(20);
/// Limit of the listed jobs of each supervisor.
const JOBS: usize = 100;

/// A supervisor's presence as stored. Only the supervisor itself uses `place`, to recognize itself.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct FleetRow {
    instance: String,
    host: String,
    version: String,
    since: Option<Millis>,
    stopping: Option<Stop>,
    pools: Vec<PoolSign>,
    seen: Option<Millis>,
    silent: bool,
    running: u64,
    place: String,
}

/// How often to publish the presence.
pub(super) fn every(has_strangers: bool) -> Duration {
    if has_strangers { EVERY_BESIDE_STRANGERS } else { EVERY }
}

/// Bits of the script's answer.
const HAS_WORK: u8 = 1;
const HAS_STRANGERS: u8 = 2;

/// Publishes the presence, and has the server send a message on `channel`. Nothing is published before the supervisor
/// has called `sign`. The answer shows changes that no message announces: that there is work, that the server has lost
/// this supervisor and its leases, and that another program has spoiled a key of all jobs, or of an index.
pub(super) async fn sign(shared: &Shared, channel: &str) -> Result<(), Error> {
    let sign = shared.sign();
    let (host, place) = (shared.host.as_str(), shared.place.as_str());
    let told =
        shared.link.call("give a sign of life to", "taskvisor.sign", shared.link.now(), |cmd, offset| {
            cmd.arg(channel);
            write(cmd, sign.as_ref(), (host, place), offset);
            for queue in shared.watched_queues() {
                cmd.arg(queue.as_str());
            }
        });
    let told = array(told.await?)?;
    let [seen, key, kind] = [0, 1, 2].map(|at| told.get(at));
    let seen = seen.map_or(0, number::<u8>);
    let spoiled = key.and_then(text).filter(|key| !key.is_empty()).zip(kind.and_then(text));
    *lock(&shared.spoiled_aside) = told.get(3).and_then(spoiled_aside);
    *lock(&shared.spoiled_index) =
        spoiled.map(|(key, kind)| format!("no job can be put: {}", Error::NotAJob(key, kind)));
    shared.has_strangers.store(seen & HAS_STRANGERS != 0, Ordering::Relaxed);
    if seen & HAS_WORK != 0 {
        shared.wake(QueueSet::All);
    }
    let mark = told.get(4).and_then(text).unwrap_or_default();
    if shared.link.has_forgotten(&mark, &shared.complaints) {
        shared.verify_all();
    }
    Ok(())
}

/// The first of the keys of indices and figures that another program has spoiled.
fn spoiled_aside(keys: &Value) -> Option<String> {
    let first = array(keys.clone()).ok()?.into_iter().next()?;
    let [key, kind, _, _] = parts(first).ok()?.map(|part| text(&part).unwrap_or_default());
    Some(format!("what it is for is not kept: {}", Error::NotAJob(key, kind)))
}

fn write(cmd: &mut Cmd, sign: Option<&Presence>, (host, place): (&str, &str), offset: Offset) {
    let Some(sign) = sign else {
        cmd.arg("").arg("");
        return;
    };
    let told = FleetRow {
        instance: sign.instance.as_str().into(),
        host: host.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        since: Some(offset.millis(sign.started)),
        stopping: sign.stopping,
        pools: sign.pools.clone(),
        place: place.into(),
        ..FleetRow::default()
    };
    cmd.arg(sign.instance.as_str()).arg(serde_json::to_string(&told).unwrap_or_default());
}

/// Refuses the name of a supervisor that lives elsewhere: otherwise this one would release the other's jobs as its own.
pub(super) async fn admit(shared: &Shared, instance: &Instance) -> Result<(), Error> {
    // This check is the first part of a release.
    let verb = "release jobs in";
    let asked = shared.link.call(verb, "taskvisor.fleet", shared.link.now(), |cmd, _| {
        cmd.arg(0);
    });
    let [now, members] = parts(asked.await?)?;
    for member in array(members)? {
        let [name, seen, told, _running, _jobs] = parts(member)?;
        let told: FleetRow = reply::json(&told).unwrap_or_default();
        let silence = Duration::from_millis(number::<u64>(&now).saturating_sub(number::<u64>(&seen) * 1000));
        // In the same place it was an earlier process of this supervisor.
        let is_other = text(&name).as_deref() == Some(instance.as_str()) && told.place != shared.place;
        if is_other && !told.place.is_empty() && silence < FRESH {
            let host = told.host;
            return Err(Error::Refused(format!(
                "a supervisor on '{host}' goes by the same name, {instance}, and gave a sign of life {} s ago",
                silence.as_secs()
            )));
        }
    }
    Ok(())
}

/// Removes this supervisor from the list; its presence is not published any more.
pub(super) async fn leave(shared: &Shared, instance: &Instance) -> Result<(), Error> {
    let left = shared.link.call("leave", "taskvisor.leave", shared.link.now(), |cmd, _| {
        cmd.arg(instance.as_str());
    });
    left.await.map(drop)
}

/// All supervisors, with their jobs.
pub(super) async fn show(redis: &Shared, it: ShowFleet) -> Result<Fleet, Error> {
    let answer = asked(redis, "taskvisor.fleet", |cmd| {
        cmd.arg(if it.jobs { JOBS } else { 0 });
    });
    let [now, members] = parts(answer.await?)?;
    let now = Millis(number(&now));
    let members = array(members)?.into_iter().map(|told| member(told, now));
    let mut supervisors = members.collect::<Result<Vec<Member>, Error>>()?;
    supervisors.sort_by(|one, other| (&one.host, &one.instance).cmp(&(&other.host, &other.instance)));
    Ok(Fleet { schema: Fleet::SCHEMA.into(), now, supervisors })
}

/// Reads the presence of a supervisor; another version may have written fewer or more fields.
fn member(told: Value, now: Millis) -> Result<Member, Error> {
    let [instance, seen, told, running, jobs] = parts(told)?;
    let seen =
        text(&seen).and_then(|seen| seen.parse::<f64>().ok()).map(|seen| Millis((seen * 1000.0) as i64));
    let silence = seen.map_or(0, |seen| now.0.saturating_sub(seen.0));
    let mut jobs = array(jobs)?.into_iter().map(job).collect::<Result<Vec<_>, Error>>()?;
    jobs.sort_by_key(|job| job.since);
    let FleetRow { host, version, since, stopping, pools, .. } = reply::json(&told).unwrap_or_default();
    Ok(Member {
        instance: text(&instance).unwrap_or_default(),
        host,
        version,
        since,
        stopping,
        pools,
        seen,
        silent: u128::try_from(silence).is_ok_and(|silence| silence > SILENT.as_millis()),
        running: number(&running),
        jobs,
    })
}

fn job(told: Value) -> Result<MemberJob, Error> {
    let [id, class, since] = parts(told)?;
    let (id, class) = (text(&id).unwrap_or_default(), text(&class).unwrap_or_default());
    Ok(MemberJob { id: id.into(), class: class.into(), since: some_number(&since).map(Millis) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_format_of_presence_is_stable() {
        let pool = PoolSign { name: "mail".into(), mode: "fork".into(), slots: 2, ..PoolSign::default() };
        let row = FleetRow {
            instance: "i".into(),
            host: "h".into(),
            version: "1".into(),
            since: Some(Millis(5)),
            stopping: Some(Stop::Drain),
            pools: vec![pool],
            place: "p".into(),
            ..FleetRow::default()
        };
        let text = concat!(
            r#"{"instance":"i","host":"h","version":"1","since":5,"stopping":"drain","pools":[{"name":"mail","mode":"#,
            r#""fork","queues":[],"paused":false,"slots":2,"ready":0,"busy":0}],"seen":null,"silent":false,"#,
            r#""running":0,"place":"p"}"#
        );
        assert_eq!(serde_json::to_string(&row).unwrap(), text, "supervisors of other versions read it");
        assert_eq!(serde_json::to_string(&serde_json::from_str::<FleetRow>(text).unwrap()).unwrap(), text);
    }
}
