//! `/metrics`: the text format of Prometheus, version 0.0.4.
//!
//! Labels are pools, queues, classes, states and verdicts: words from the settings and this program, and a limited
//! number of words from clients that put jobs.

use std::collections::BTreeMap;

use super::job_metrics;
use super::metrics_page::Page;
use super::queue_metrics;
use model::{Health, LogStatus, Meters, PoolStatus, Process, SlotState, Status};

/// The content type of the answer.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const SLOT_STATES: [SlotState; 7] = [
    SlotState::Down,
    SlotState::Starting,
    SlotState::Ready,
    SlotState::Busy,
    SlotState::Stopping,
    SlotState::Killed,
    SlotState::Unkillable,
];

const HEALTH: [(Health, &str); 3] =
    [(Health::Healthy, "healthy"), (Health::Degraded, "degraded"), (Health::Unhealthy, "unhealthy")];

/// Renders the page of metrics.
pub(super) fn render(meters: &Meters) -> String {
    let mut page = Page::default();
    supervisor(&mut page, &meters.status);
    processes(&mut page, meters);
    pools(&mut page, meters);
    broker(&mut page, meters);
    classes(&mut page, meters);
    logs(&mut page, &meters.status.logs);
    queue_metrics::queues(&mut page, meters);
    job_metrics::jobs(&mut page, meters);
    page.0
}

fn supervisor(page: &mut Page, status: &Status) {
    page.family("build_info", "gauge", "The version of taskvisor; always 1.");
    page.sample("build_info", &[("version", &status.version)], 1);
    page.one("up_seconds", "gauge", "Since the supervisor started.", status.up.as_secs_f64());
    page.family("health", "gauge", "1 for the verdict of status -q, 0 for the others.");
    for (health, word) in HEALTH {
        page.sample("health", &[("verdict", word)], u8::from(status.verdict == health));
    }
    let stopping = u8::from(status.stopping.is_some());
    page.one("stopping", "gauge", "Whether it was ordered to stop.", stopping);
    let restarts = status.supervisor_restarts;
    page.one("supervisor_restarts_total", "counter", "Supervisors that ended before this one.", restarts);
}

fn processes(page: &mut Page, meters: &Meters) {
    let both = [("keeper", &meters.status.keeper), ("supervisor", &meters.status.supervisor)];
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Process) -> f64| {
        page.family(name, kind, help);
        for (label, process) in both {
            page.sample(name, &[("process", label)], value(process));
        }
    };
    family("process_resident_bytes", "gauge", "Resident memory.", &|process| process.rss as f64);
    let cpu = |process: &Process| process.cpu.as_secs_f64();
    family("process_cpu_seconds_total", "counter", "CPU time used.", &cpu);
    page.family("process_open_descriptors", "gauge", "Descriptors open.");
    for (label, open) in
        [("keeper", meters.keeper_descriptors), ("supervisor", meters.supervisor_descriptors)]
    {
        if let Some(open) = open {
            page.sample("process_open_descriptors", &[("process", label)], open);
        }
    }
}

/// Pools by name: an outdated one and its heir share a name.
type Named<'a> = BTreeMap<&'a str, Vec<&'a PoolStatus>>;

fn pools(page: &mut Page, meters: &Meters) {
    let mut named = Named::new();
    for pool in &meters.status.pools {
        named.entry(&pool.name).or_default().push(pool);
    }
    page.family("slots", "gauge", "Places that have a worker or want one, by state.");
    for (name, pools) in &named {
        for state in SLOT_STATES {
            let count = pools.iter().flat_map(|pool| &pool.slots).filter(|slot| slot.state == state).count();
            page.sample("slots", &[("pool", name), ("state", state.as_str())], count);
        }
    }
    page.family("jobs_running", "gauge", "Jobs in workers.");
    for (name, pools) in &named {
        let jobs: usize = pools.iter().flat_map(|pool| &pool.slots).map(|slot| slot.jobs.len()).sum();
        page.sample("jobs_running", &[("pool", name)], jobs);
    }
    page.family(
        "pool_probing",
        "gauge",
        "Whether it tries with one slot only, for its workers do not come up.",
    );
    for (name, pools) in &named {
        let probing = u8::from(pools.iter().any(|pool| pool.probing.is_some()));
        page.sample("pool_probing", &[("pool", name)], probing);
    }
    page.family("pool_paused", "gauge", "Whether a pool takes no jobs because somebody paused it.");
    for (name, pools) in &named {
        // An outdated pool takes no more jobs in any case: its heir says whether it is paused.
        let staying = pools.iter().filter(|pool| !pool.outdated);
        let paused = u8::from(staying.clone().next().is_some() && staying.clone().all(|pool| pool.paused));
        page.sample("pool_paused", &[("pool", name)], paused);
    }
    // Only pools that exist: the counters also have those that are gone.
    let counted = || named.keys().filter_map(|name| Some((*name, meters.counters.pools.get(*name)?)));
    page.family("workers_started_total", "counter", "Lives of workers begun.");
    for (name, pool) in counted() {
        page.sample("workers_started_total", &[("pool", name)], pool.spawned);
    }
    page.family("workers_ended_total", "counter", "Lives of workers ended; a program that is a job is one.");
    for (name, pool) in counted() {
        for (how, count) in [("exit_0", pool.ended_well), ("exit", pool.ended_badly), ("signal", pool.killed)]
        {
            page.sample("workers_ended_total", &[("pool", name), ("how", how)], count);
        }
    }
    page.family("jobs_fetched_total", "counter", "Jobs taken from queues.");
    for (name, pool) in counted() {
        page.sample("jobs_fetched_total", &[("pool", name)], pool.fetched);
    }
    let tallies = || named.keys().filter_map(|name| Some((*name, meters.counters.tallies.get(*name)?)));
    page.family("worker_restarts_total", "counter", "Lives of workers that ended other than as planned.");
    for (name, tally) in tallies() {
        page.sample("worker_restarts_total", &[("pool", name)], tally.restarts);
    }
    page.family("jobs_settled_total", "counter", "Verdicts that the broker has taken.");
    for (name, tally) in tallies() {
        for (verdict, count) in &tally.settled {
            page.sample("jobs_settled_total", &[("pool", name), ("verdict", verdict)], count);
        }
    }
}

fn broker(page: &mut Page, meters: &Meters) {
    let counters = &meters.counters;
    let trouble = u8::from(meters.status.broker_trouble.is_some());
    page.one("broker_trouble", "gauge", "Whether the broker does not do what it is asked.", trouble);
    page.family("failing_seconds", "gauge", "What has failed for 5 s and still does, and for how long.");
    for (what, lasted) in &meters.failing {
        page.sample("failing_seconds", &[("what", what)], lasted.as_secs_f64());
    }
    if let Some(bytes) = meters.wal_bytes {
        page.one("store_wal_bytes", "gauge", "The size of the store's WAL file.", bytes);
    }
    if let Some(count) = meters.outbox {
        let what = "New jobs that wait in the state directory until they can be put.";
        page.one("outbox_jobs", "gauge", what, count);
    }
    page.family("fetch_seconds", "summary", "Fetches, and how long they took.");
    page.sample("fetch_seconds_sum", &[], counters.fetch_time.as_secs_f64());
    page.sample("fetch_seconds_count", &[], counters.fetches + counters.fetches_failed);
    let failed = counters.fetches_failed;
    page.one("fetches_failed_total", "counter", "Fetches without an answer.", failed);
    page.one("leases_renewed_total", "counter", "Leases renewed.", counters.renewed);
    let failed = counters.renewals_failed;
    page.one("renewals_failed_total", "counter", "Renewals without an answer.", failed);
    page.one("leases_revoked_total", "counter", "Leases lost, canceled jobs included.", counters.revoked);
    let failed = counters.settles_failed;
    page.one("settles_failed_total", "counter", "Verdicts that have to be told again.", failed);
}

fn classes(page: &mut Page, meters: &Meters) {
    page.family("class_run_seconds", "summary", "How long attempts ran, from the order to their end.");
    for (class, ran) in &meters.counters.classes {
        page.sample("class_run_seconds_sum", &[("class", class)], ran.time.as_secs_f64());
        page.sample("class_run_seconds_count", &[("class", class)], ran.count);
    }
}

fn logs(page: &mut Page, logs: &LogStatus) {
    let (bytes, lines) = (logs.output_dropped, logs.lines_dropped);
    page.one("output_dropped_bytes_total", "counter", "Output of jobs that the disk did not take.", bytes);
    page.one("log_lines_dropped_total", "counter", "Lines of the supervisor's log that nobody took.", lines);
    page.one("log_troubles", "gauge", "Logs that cannot be written at the moment.", logs.troubles.len());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::super::queue_metrics::{OTHER, QUEUES};
    use super::*;
    use model::{Counters, Millis, PoolCounters, Ran, Tally};

    fn meters(pools: Vec<Value>, queues: &BTreeMap<String, Value>) -> Meters {
        let process = json!({ "pid": 7, "name": "p", "state": "S", "rss": 4096, "cpu": 1.5 });
        let host = json!({ "name": "h", "memory_total": 1, "memory_used": 1, "load": 0.5, "cpus": 2 });
        let status = json!({
            "schema": "taskvisor.status/2", "version": "0.1.0", "health": "degraded", "reasons": [], "host": host,
            "keeper": process, "supervisor": process, "supervisor_restarts": 2, "uptime": 60,
            "stopping": null, "broker": "memory:", "broker_trouble": null, "settled": { "complete": 5 },
            "logs": { "output_dropped": 0, "lines_dropped": 4, "troubles": [] }, "pools": pools, "queues": queues,
        });
        let pools = BTreeMap::from([(
            "a".to_owned(),
            PoolCounters { fetched: 9, killed: 4, ..PoolCounters::default() },
        )]);
        let gone = ("gone".to_owned(), Tally { restarts: 7, ..Tally::default() });
        let tally = Tally { restarts: 2, settled: BTreeMap::from([("complete", 5)]) };
        let tallies = BTreeMap::from([("a".to_owned(), tally), gone]);
        let fetch_time = Duration::from_millis(250);
        let classes = BTreeMap::from([("Mail".to_owned(), Ran { count: 4, time: fetch_time })]);
        let counters = Counters { fetch_time, fetches: 3, pools, tallies, classes, ..Counters::default() };
        let (status, now) = (serde_json::from_value(status).unwrap(), Millis(100_000));
        Meters {
            status,
            counters,
            now,
            keeper_descriptors: Some(9),
            supervisor_descriptors: None,
            wal_bytes: Some(8),
            failing: vec![("failed to settle".into(), Duration::from_secs(7))],
            outbox: Some(6),
            recurring: BTreeMap::new(),
            disks: BTreeMap::new(),
        }
    }

    fn pool(name: &str, slots: u32) -> Value {
        let slot = |index| {
            json!({ "slot": format!("default.{index}"), "generation": 1, "state": "ready", "age": 0,
                    "jobs": [], "restarts": 3, "why": null })
        };
        json!({ "name": name, "mode": "fork", "queues": ["served"], "probing": null,
                "slots": (1..=slots).map(slot).collect::<Vec<_>>() })
    }

    fn queue(waiting: u64) -> Value {
        let today = json!({ "wait": { "count": 4, "seconds": 2.5 }, "run": { "count": 3, "seconds": 0.5 },
                            "retries": 2, "failures": 7, "failed": 5 });
        json!({ "jobs": { "waiting": waiting }, "oldest_waiting_at_ms": 90_000, "paused": null, "today": today })
    }

    /// The samples of a page that follows the rules of the format.
    fn samples(page: &str) -> BTreeMap<String, f64> {
        let (mut found, mut families, mut open) =
            (BTreeMap::new(), BTreeSet::new(), (String::new(), String::new()));
        let mut help = None;
        for line in page.lines() {
            if let Some(text) = line.strip_prefix("# HELP ") {
                help = text.split_once(' ').filter(|(_, text)| !text.is_empty()).map(|(name, _)| name);
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
            {
                assert_eq!(help, Some(name), "{line}");
                assert!(families.insert(name.to_owned()), "{name} twice");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
                open = (name.to_owned(), kind.to_owned());
            } else {
                let (key, value) = line.rsplit_once(' ').expect("a sample");
                let name = key.split('{').next().unwrap();
                let own = name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count"));
                let family = own.filter(|_| open.1 == "summary").unwrap_or(name);
                assert_eq!(family, open.0, "{line}");
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
                assert!(found.insert(key.to_owned(), value.parse().unwrap()).is_none(), "{key} twice");
            }
        }
        found
    }

    #[test]
    fn metrics_page_has_each_sample_once_and_follows_the_format() {
        let queues = BTreeMap::from([("served".to_owned(), queue(3))]);
        let found = samples(&render(&meters(vec![pool("a", 2), pool("b", 0), pool("a", 1)], &queues)));
        for (key, value) in [
            ("taskvisor_build_info{version=\"0.1.0\"}", 1.0),
            ("taskvisor_health{verdict=\"degraded\"}", 1.0),
            ("taskvisor_health{verdict=\"healthy\"}", 0.0),
            ("taskvisor_slots{pool=\"a\",state=\"ready\"}", 3.0),
            ("taskvisor_slots{pool=\"b\",state=\"ready\"}", 0.0),
            ("taskvisor_workers_ended_total{pool=\"a\",how=\"signal\"}", 4.0),
            ("taskvisor_jobs_fetched_total{pool=\"a\"}", 9.0),
            ("taskvisor_jobs_settled_total{pool=\"a\",verdict=\"complete\"}", 5.0),
            ("taskvisor_worker_restarts_total{pool=\"a\"}", 2.0),
            ("taskvisor_log_lines_dropped_total", 4.0),
            ("taskvisor_fetch_seconds_sum", 0.25),
            ("taskvisor_fetch_seconds_count", 3.0),
            ("taskvisor_queue_jobs{queue=\"served\",state=\"waiting\"}", 3.0),
            ("taskvisor_queue_oldest_waiting_seconds{queue=\"served\"}", 10.0),
            ("taskvisor_queue_wait_seconds_sum{queue=\"served\"}", 2.5),
            ("taskvisor_queue_run_seconds_count{queue=\"served\"}", 3.0),
            ("taskvisor_queue_retries_total{queue=\"served\"}", 2.0),
            ("taskvisor_queue_failures_total{queue=\"served\"}", 7.0),
            ("taskvisor_queue_failed_today{queue=\"served\"}", 5.0),
            ("taskvisor_process_cpu_seconds_total{process=\"keeper\"}", 1.5),
            ("taskvisor_process_open_descriptors{process=\"keeper\"}", 9.0),
            ("taskvisor_store_wal_bytes", 8.0),
            ("taskvisor_outbox_jobs", 6.0),
            ("taskvisor_class_run_seconds_sum{class=\"Mail\"}", 0.25),
            ("taskvisor_class_run_seconds_count{class=\"Mail\"}", 4.0),
        ] {
            assert_eq!(found.get(key), Some(&value), "{key}");
        }
        assert!(!found.keys().any(|key| key.contains("gone")), "no pool has that name any more");
    }

    #[test]
    fn metric_labels_are_bounded_in_number_and_escaped() {
        let named = |name: &str| (name.to_owned(), queue(1));
        let many = (0..1000).map(|number| named(&format!("q{number}")));
        let odd = [named("other"), named("a\"} 1\nx{y=\"\\"), named("served")];
        let page = render(&meters(vec![pool("a", 1)], &many.chain(odd).collect()));
        let found = samples(&page);
        let waiting =
            |label: &str| found[&format!("taskvisor_queue_jobs{{queue=\"{label}\",state=\"waiting\"}}")];
        let labels = found.keys().filter(|key| key.starts_with("taskvisor_queue_paused")).count();
        assert_eq!(labels, QUEUES, "'other' has one already");
        assert_eq!(
            (waiting("served"), waiting("a\\\"} 1\\nx{y=\\\"\\\\"), waiting(OTHER)),
            (1.0, 1.0, 904.0)
        );
        assert_eq!(found["taskvisor_queue_failures_total{queue=\"other\"}"], 904.0 * 7.0);
    }

    #[test]
    fn metrics_of_1000_slots_and_100_queues_are_rendered_quickly() {
        let queues = (0..100).map(|number| (format!("q{number}"), queue(1))).collect();
        let meters = meters((0..10).map(|number| pool(&format!("p{number}"), 100)).collect(), &queues);
        let began = Instant::now();
        let page = render(&meters);
        // A hundred times what it takes without optimization on a busy machine.
        assert!(page.len() > 50_000 && began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}
