//! `status --fleet`: every supervisor that shares the broker.

use std::fmt::Write as _;
use std::time::Duration;

use crate::cli::access::Access;
use crate::cli::args::status::Status as Args;
use crate::cli::term::format::counted;
use crate::cli::term::screen::{Look, age, escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::verb::{Ability, ShowFleet};
use model::{Fleet, Member, Millis, PoolSign};

/// Prints it, whether a supervisor runs here or not.
pub(crate) async fn fleet(config: &Config, args: &Args) -> Result<u8, Failure> {
    // The jobs of all supervisors are a long list: asked for only where they are shown.
    let asked = ShowFleet { jobs: args.verbose || args.json };
    // Without a store, its kind still says what it cannot show.
    let of_kind = |failure| match config.broker.card().require(Ability::Fleet) {
        Ok(()) => failure,
        Err(unsupported) => Failure::from(unsupported),
    };
    let fleet = Access::open(config).await.map_err(of_kind)?.ask(asked).await?;
    match args.json {
        true => print_json(&fleet)?,
        false => print(&render(&fleet, args.verbose, &Look::of_stdout(args.ascii)))?,
    }
    Ok(exit::OK)
}

/// Each supervisor with its pools, and if verbose its jobs.
pub(crate) fn render(fleet: &Fleet, verbose: bool, look: &Look) -> String {
    if fleet.supervisors.is_empty() {
        return "no supervisor shares this Redis\n".into();
    }
    let mut out = String::new();
    for member in &fleet.supervisors {
        let mut lines = vec![head(member, fleet.now)];
        lines.extend(member.pools.iter().map(pool));
        if verbose {
            lines.extend(jobs(member, fleet.now));
        }
        for line in lines {
            let _ = writeln!(out, "{}", look.cut(&line));
        }
    }
    out
}

fn head(member: &Member, now: Millis) -> String {
    let Member { host, instance, version, running, .. } = member;
    let seen = since(member.seen, now);
    let mut line = format!("{} {} {}", escaped(host), escaped(instance), escaped(version));
    let _ = match (member.silent, member.stopping) {
        // First: one that died while it stopped would seem to stop for ever.
        (true, _) => write!(line, ": SILENT for {seen}: it hangs, is dead, or does not reach Redis"),
        (false, Some(_)) => write!(line, ": stopping, seen {seen} ago"),
        (false, None) => write!(line, ": up {}, seen {seen} ago", since(member.since, now)),
    };
    let jobs = counted(usize::try_from(*running).unwrap_or(usize::MAX), "job", "jobs");
    let _ = write!(line, ", {jobs} running");
    line
}

fn pool(pool: &PoolSign) -> String {
    let queues: Vec<_> = pool.queues.iter().map(|queue| escaped(queue.as_str())).collect();
    let paused = if pool.paused { ", paused" } else { "" };
    format!(
        "  {} ({}): {}, {} ready, {} busy{paused}; {}",
        escaped(&pool.name),
        escaped(&pool.mode),
        counted(pool.slots, "slot", "slots"),
        pool.ready,
        pool.busy,
        queues.join(", ")
    )
}

fn jobs(member: &Member, now: Millis) -> Vec<String> {
    let line = |job: &model::MemberJob| {
        let (id, class) = (job.id.shown(), job.class.shown());
        format!("    {} {} {}", escaped(&id), escaped(&class), since(job.since, now))
    };
    let mut lines: Vec<String> = member.jobs.iter().map(line).collect();
    if let Some(more @ 1..) = member.running.checked_sub(member.jobs.len() as u64) {
        lines.push(format!("    and {more} more"));
    }
    lines
}

fn since(moment: Option<Millis>, now: Millis) -> String {
    let millis = moment.map_or(0, |moment| now.0.saturating_sub(moment.0));
    age(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::look;
    use model::MemberJob;

    #[test]
    fn a_fleet_is_a_page() {
        let pool = PoolSign {
            name: "default".into(),
            mode: "fork".into(),
            queues: vec!["mail".into(), "default".into()],
            paused: false,
            slots: 8,
            ready: 6,
            busy: 2,
            classes: vec!["mail.Send".into()],
        };
        let job = MemberJob { id: "4f2a".into(), class: "mail.Send".into(), since: Some(Millis(90_000)) };
        let well = Member {
            instance: "i-1".into(),
            host: "alpha".into(),
            version: "0.1.0".into(),
            since: Some(Millis(10_000)),
            pools: vec![pool.clone()],
            seen: Some(Millis(96_000)),
            running: 2,
            jobs: vec![job],
            ..Member::default()
        };
        let paused = PoolSign { paused: true, slots: 1, ready: 0, busy: 1, ..pool };
        let silent = Member {
            host: "beta\x1b[2J".into(),
            seen: Some(Millis(1_000)),
            silent: true,
            running: 0,
            pools: vec![paused],
            jobs: Vec::new(),
            ..well.clone()
        };
        let fleet =
            Fleet { schema: Fleet::SCHEMA.into(), now: Millis(100_000), supervisors: vec![well, silent] };
        assert_eq!(
            render(&fleet, true, &look(200)),
            "alpha i-1 0.1.0: up 1m30s, seen 4.0s ago, 2 jobs running\n\
             \x20 default (fork): 8 slots, 6 ready, 2 busy; mail, default\n\
             \x20   4f2a mail.Send 10s\n\
             \x20   and 1 more\n\
             beta\\x1b[2J i-1 0.1.0: SILENT for 1m39s: it hangs, is dead, or does not reach Redis, 0 jobs running\n\
             \x20 default (fork): 1 slot, 0 ready, 1 busy, paused; mail, default\n"
        );
        let nobody = Fleet { supervisors: Vec::new(), ..fleet };
        assert_eq!(render(&nobody, true, &look(200)), "no supervisor shares this Redis\n");
    }
}
