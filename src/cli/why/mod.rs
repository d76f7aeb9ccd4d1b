//! `why job|slot|pool`: turns facts into sentences, and lists the decisions that led there.

pub(super) mod because;
pub(super) mod because_pool;
pub(super) mod because_running;

use std::fmt::Write as _;
use std::sync::Arc;

use self::because::{Heard, of_job, way_back};
use self::because_pool::{of_pool, of_slot};
use super::access::Access;
use super::access::elsewhere::supervisor;
use super::access::hosts::Hosts;
use super::access::spooled::puts_only;
use super::args::{WhyCommand, WhyOf};
use super::record::needs::Helps;
use super::record::processes;
use super::term::screen::{Look, age, escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::{Decision, JobRecord, Millis, Subject, Why};

/// Prints why something is in its state.
pub(super) async fn why(config: &Config, command: &WhyCommand) -> Result<u8, Failure> {
    let (WhyOf { json, .. }, subject) = match command {
        WhyCommand::Job(of) => (of, Subject::Job(of.name.as_str().into())),
        WhyCommand::Slot(of) => (of, Subject::Slot(of.name.clone())),
        WhyCommand::Pool(of) => (of, Subject::Pool(of.name.clone())),
    };
    let (access, subject) = match subject {
        Subject::Job(typed) => {
            let access = Access::open(config).await?;
            let id = access.shown(typed.as_str()).await?;
            (access, Subject::Job(id))
        }
        Subject::Slot(_) | Subject::Pool(_) => {
            (Access::Api(supervisor(config).await?, Arc::new(config.clone())), subject)
        }
    };
    if *json {
        print_json(&facts(&access, &subject).await?)?;
        return Ok(exit::OK);
    }
    print(&text(&access, &subject, &Look::of_stdout(false)).await?)?;
    Ok(exit::OK)
}

async fn facts(access: &Access, subject: &Subject) -> Result<Why, Failure> {
    match (access, subject) {
        (Access::Spool(spool), Subject::Slot(_) | Subject::Pool(_)) => Err(puts_only(spool)),
        (_, Subject::Job(id)) => access.why(id).await,
        (Access::Api(api, _), Subject::Slot(_) | Subject::Pool(_)) => Ok(api.why(subject).await?),
        (Access::Store(_), Subject::Slot(_) | Subject::Pool(_)) => {
            Err(Failure::new(exit::NOT_RUNNING, "no supervisor runs: there are no slots and no pools"))
        }
    }
}

/// Why something is in its state, in sentences.
pub(super) async fn text(access: &Access, subject: &Subject, look: &Look) -> Result<String, Failure> {
    let mut why = facts(access, subject).await?;
    let now = clock::wall();
    let because = match subject {
        Subject::Job(id) => {
            let heard = match &mut why.job {
                Some(job) => about(access, job).await,
                // Only a supervisor answers about a job that its broker does not show.
                None => Heard::Supervisor,
            };
            let card = access.card().await?;
            let back = why.job.as_ref().and_then(|job| way_back(job, card));
            [of_job(id, &why, &heard, Helps::of(card), now), back.into_iter().collect()].concat()
        }
        Subject::Pool(_) => why.pools.iter().flat_map(|(pool, _)| of_pool(pool, &why, look)).collect(),
        Subject::Slot(name) => of_slot(name, &why),
    };
    let mut text = render(because, &why, now, look);
    if let (Access::Api(api, _), Subject::Job(_), Some(job)) = (access, subject, &why.job)
        && job.state.is_leased()
        // What runs elsewhere, or has just ended, has none.
        && let Ok(picture) = api.picture(&job.id).await
    {
        text.push_str("\nits processes now\n");
        processes::render(&mut text, &picture.seen);
    }
    Ok(text)
}

/// Which supervisors could answer about a job. Adds the names of hosts to the job.
async fn about(access: &Access, job: &mut JobRecord) -> Heard {
    let hosts = Hosts::of(access).await;
    hosts.name_in(job);
    match access {
        Access::Api(..) => Heard::Supervisor,
        Access::Store(_) if hosts.shared => Heard::Others(hosts.that_take(&job.queue)),
        Access::Store(store) if store.card().shared => Heard::Unseen,
        Access::Store(_) | Access::Spool(_) => Heard::Nobody,
    }
}

fn render(because: Vec<String>, why: &Why, now: Millis, look: &Look) -> String {
    let stopping = why.stopping.map(|_| "The supervisor is stopping: it takes no more jobs.".to_owned());
    let broker = why.broker_trouble.as_ref().map(|trouble| {
        let end = if trouble.ends_with('?') { "" } else { "." };
        format!("The broker is in trouble: {trouble}{end}")
    });
    let concerns = why.broker_concerns.iter().map(|concern| format!("About the broker: {concern}."));
    let counted = why.queues_age.map(|old| format!("Its queues were last counted {} ago.", age(old)));
    let mut out = String::new();
    for sentence in because.into_iter().chain(stopping).chain(broker).chain(concerns).chain(counted) {
        let _ = writeln!(out, "{}", escaped(&sentence));
    }
    if let Some(seen) = &why.snapshot {
        out.push_str("\nits processes before they were last ended for a limit\n");
        processes::render(&mut out, seen);
    }
    if !why.decisions.is_empty() {
        out.push_str("\nlatest decisions\n");
    }
    for Decision { ago, what } in &why.decisions {
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        let at = look.moment(Millis(now.0.saturating_sub(ago)));
        let _ = writeln!(out, "  {at}  {}", escaped(what));
    }
    out
}
