//! Orders about many jobs: counted before they are confirmed, carried out stretch by stretch.

use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};
use tokio::time::timeout;

use model::JobId;
use model::verb::{Act, Bulk, Discard, Retry};

use crate::app::App;
use crate::order::Order;
use crate::trouble::Trouble;
use crate::{say, text};

/// How long a reader waits for an order about many jobs; after that the page says that it goes on.
const PATIENCE: Duration = Duration::from_secs(3);
/// Limit of the time for counting the jobs of an order before it is confirmed.
const COUNTING: Duration = Duration::from_secs(3);

/// The first of the named jobs.
pub(crate) fn named(jobs: &[String]) -> Markup {
    const SHOWN: usize = 20;
    html! {
        ul.ids { @for job in jobs.iter().take(SHOWN) { li { code { (text::short(job)) } } } }
        @if jobs.len() > SHOWN { p { "and " (say::count((jobs.len() - SHOWN) as u64)) " more" } }
    }
}

/// How many jobs match an order about many: a dry run of it, cut off after 3 s.
pub(crate) async fn count(app: &App, bulk: &Bulk) -> Result<Markup, Trouble> {
    let mut asked = Bulk { dry_run: true, ..bulk.clone() };
    let (mut jobs, mut needed, mut first) = (0, 0, Vec::new());
    let begun = tokio::time::Instant::now();
    let is_whole = loop {
        let swept = app.source.look(asked.clone()).await?;
        jobs += swept.count;
        needed += swept.needed;
        first.extend(swept.jobs);
        match swept.next {
            None => break true,
            Some(_) if begun.elapsed() > COUNTING => break false,
            next => asked.after = next,
        }
    };
    first.truncate(5);
    let first: Vec<String> = first.iter().map(|id: &JobId| id.as_str().to_owned()).collect();
    Ok(html! {
        p.count { strong data-count=(jobs) { (say::count(jobs)) @if !is_whole { "+" } } " " (if jobs == 1 { "job" } else { "jobs" }) }
        @if needed > 0 { p { (say::counted(needed, "job stays", "jobs stay")) ", because others depend on it." } }
        @if !first.is_empty() { p { "Among them:" } (named(&first)) }
    })
}

/// Retries or discards the named jobs, one request each. Gives what to say to the reader.
pub(crate) async fn each(app: &App, jobs: Vec<String>, act: Act, by: &str) -> Result<String, Trouble> {
    let what = match act {
        Act::Retry => "put back to waiting",
        Act::Discard => "discarded",
    };
    let (mut done, mut first) = (0, None);
    let all = jobs.len();
    for job in jobs {
        let job = JobId::from(job);
        let answer = match act {
            Act::Retry => app.source.ask(Retry { job }, by).await,
            Act::Discard => app.source.ask(Discard { job }, by).await,
        };
        match answer {
            Ok(_) => done += 1,
            // Without an answer the others would wait as long.
            Err(trouble) if trouble.code >= 500 => {
                let so_far = format!("{} of {all} {what}, then: {}", say::count(done), trouble.message);
                return Err(Trouble { message: so_far, ..trouble });
            }
            Err(trouble) => drop(first.get_or_insert(trouble)),
        }
    }
    match first {
        Some(trouble) if done == 0 => Err(trouble),
        Some(trouble) => {
            Ok(format!("{} of {all} jobs {what}; the others not: {}", say::count(done), trouble.message))
        }
        None => Ok(format!("{} {what}", say::counted(done, "job", "jobs"))),
    }
}

/// Carries out an order about many jobs, stretch by stretch. It goes on when the reader has left.
pub(crate) async fn sweep(app: &Arc<App>, bulk: Bulk, by: &str) -> Result<String, Trouble> {
    let (what, verb) = (Order::Bulk(bulk.clone()).title(), Order::Bulk(bulk.clone()).verb());
    let number = app.works.begin(what.clone());
    let (app, by) = (app.clone(), by.to_owned());
    // A handler ends with the connection of its reader, a task does not.
    let work = tokio::spawn(async move {
        let (mut asked, mut all, mut needed) = (bulk, 0, 0);
        loop {
            match app.source.ask(asked.clone(), &by).await {
                Ok(swept) => {
                    all += swept.count;
                    needed += swept.needed;
                    let is_last = swept.next.is_none();
                    app.works.note(number, swept.count, is_last.then_some(Ok(())));
                    if is_last {
                        return Ok((all, needed));
                    }
                    asked.after = swept.next;
                }
                Err(trouble) => {
                    app.works.note(number, 0, Some(Err(trouble.message.clone())));
                    return Err(trouble);
                }
            }
        }
    });
    match timeout(PATIENCE, work).await {
        Ok(Ok(Ok((all, needed)))) => {
            let rest = if needed > 0 {
                format!("; {needed} stay, because others depend on them")
            } else {
                String::new()
            };
            Ok(format!("{verb}: done with {}{rest}", say::counted(all, "job", "jobs")))
        }
        Ok(Ok(Err(trouble))) => Err(trouble),
        Ok(Err(_)) => Err(Trouble::new(500, "the order broke off")),
        Err(_) => Ok(format!("{what}: under way")),
    }
}
