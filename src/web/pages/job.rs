//! One job: what it is, what happened, how it ended, what it printed, why it is as it is.

use maud::{Markup, PreEscaped, html};

use model::verb::FindJobs;
use model::{Exec, JobId, JobRecord, Millis, OutputEnd, OutputLine, OutputQuery, Payload, Subject, Why};

use super::{forensics, needs, rows};
use crate::ansi::Ansi;
use crate::app::{App, Page, Place, Visit};
use crate::form::Fields;
use crate::json::{MOST, pretty};
use crate::layout::{button, command};
use crate::text::{encoded, quoted};
use crate::trouble::Trouble;
use crate::{chart, say, shape, text};

/// Limit of the output on the page, in bytes from its end.
const OUTPUT: u64 = 256 << 10;

/// Draws the page of one job.
pub(crate) async fn page(app: &App, visit: &Visit, id: &JobId, _: &Fields) -> Result<Page, Trouble> {
    let why = match app.source.why(&Subject::Job(id.clone()), app.live.changed()).await {
        Ok(why) => app.redact.why(why),
        Err(trouble) if trouble.code == 404 => return Err(similar(app, id, trouble).await),
        Err(trouble) => return Err(trouble),
    };
    let Some(job) = why.job.clone() else {
        // It may be there: a job that the broker does not have is a 404 above.
        return Err(Trouble::new(503, "the broker does not show this job now"));
    };
    let now = app.now();
    let has_supervisor = app.source.client().is_ok();
    let (output, needs) = tokio::join!(output(app, &job), needs::section(app, &job));
    let because = app.words.why_job(id, &why, has_supervisor);
    let main = html! {
        header.job {
            h1 { (text::short(&heading(app, &job))) }
            p { (shape::job(job.state)) " " code.id { (text::shown(id.as_str())) } }
            @if visit.may_change() { (orders(app, visit, &job)) }
        }
        @if !because.is_empty() { section class={ "because is-" (job.state) } aria-label="Why" { @for sentence in &because { p { (text::shown(sentence)) } } } }
        @if let Some(progress) = job.told_progress() {
            @if let Some(fraction) = progress.fraction { (chart::progress(fraction, &format!("{:.0} percent", fraction * 100.0))) }
        }
        (facts(app, &job, now))
        div.columns {
            section aria-labelledby="h-time" { h2 #h-time { "Timeline" } (timeline(app, &job)) }
            @if let Some(left) = &job.forensics {
                section aria-labelledby="h-left" {
                    h2 #h-left { @if job.state.is_leased() { "The attempt before" } @else { "Latest attempt" } }
                    (forensics::facts(left))
                    @if let Some(seen) = &left.snapshot { h3 { "Its processes before they were ended" } (forensics::snapshot(seen)) }
                }
            }
            (needs)
            (living(app, visit, &why, &job))
            section.wide aria-labelledby="h-out" { h2 #h-out { "Output" } (output) }
            (failure(&job))
            (content(app, &job))
            (decisions(app, &why))
        }
        (command(app, &format!("taskvisor job show {}", text::names([id.as_str()]))))
    };
    // Where very many jobs change at once their ids are not told one by one.
    let topics = format!("job:{} job:*", encoded(id.as_str()));
    // No event says that its processes or their memory have changed.
    let every = if job.state.is_leased() { 2 } else { 15 };
    Ok(Page { every: Some(every), ..Page::new(format!("Job {}", id.shown()), Place::Jobs, topics, main) })
}

/// What else could be meant by an id that no job has.
async fn similar(app: &App, id: &JobId, trouble: Trouble) -> Trouble {
    let found = app.source.look(FindJobs { prefix: id.as_str().into() }).await.unwrap_or_default();
    match found.as_slice() {
        [] => trouble.hint("it was never put, or was discarded or removed after its time"),
        some => {
            let ids: Vec<&str> = some.iter().map(JobId::as_str).collect();
            trouble.hint(format!("there are: {}", ids.join(", ")))
        }
    }
}

fn heading<'a>(app: &App, job: &'a JobRecord) -> std::borrow::Cow<'a, str> {
    match &job.payload {
        Some(Payload::Exec(exec)) if !app.redact.all => line(exec).into(),
        _ => job.class.as_str().into(),
    }
}

/// A program as a shell reads it.
fn line(exec: &Exec) -> String {
    let words: Vec<String> = exec.argv.iter().map(|word| quoted(&word.to_text())).collect();
    words.join(" ")
}

fn orders(app: &App, visit: &Visit, job: &JobRecord) -> Markup {
    let leading =
        |act: &str, back: &str| format!("act={act}&job={}&back={}", encoded(job.id.as_str()), encoded(back));
    let query = |act: &str| leading(act, &visit.url);
    let ended = job.state.has_ended();
    html! {
        div.buttons {
            @if ended { (button(app, &query("retry"), "Retry", "main")) } @else { (button(app, &query("cancel"), "Cancel…", "danger")) }
            @if matches!(job.payload, Some(Payload::Data(_))) { (button(app, &query("again"), "Put again with other data…", "")) }
            @if !ended && !job.state.is_leased() { (button(app, &query("priority"), "Priority…", "")) }
            @if job.tracked { (button(app, &query("untrack"), "Unfollow", "")) } @else { (button(app, &query("track"), "Follow", "")) }
            // Its page is gone then.
            @if ended { (button(app, &leading("discard", &app.link("/jobs")), "Discard…", "danger")) }
        }
    }
}

fn facts(app: &App, job: &JobRecord, now: Millis) -> Markup {
    let fact = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    let tries = match job.retry {
        Some(retry) => format!("{} of {}", job.attempt, retry.retries.saturating_add(1)),
        None => job.attempt.to_string(),
    };
    let troubles =
        [("crashed", job.crashes), ("interrupted", job.interrupted), ("known to no worker", job.unknown)];
    let at = |name: &str, at: Option<Millis>| html! { @if let Some(at) = at { (fact(name, say::when(at, now, &app.zone))) } };
    html! {
        dl.facts {
            (fact("Queue", html! { a href=(rows::search(app, &[("queue", job.queue.as_str())])) { (text::shown(job.queue.as_str())) } }))
            (fact("Class", html! { a href=(rows::search(app, &[("class", job.class.as_str())])) { (text::shown(job.class.as_str())) } }))
            (fact("Attempt", html! { (tries) }))
            (fact("Priority", html! { (job.priority) }))
            (at("Put", Some(job.put_at).filter(|at| at.0 > 0)))
            @if let Some(by) = &job.put_by { (fact("Put by", text::shown(by))) }
            (at("Due", job.due_at)) (at("Started", job.started_at)) (at("Ended", job.ended_at))
            @if let Some(ran) = rows::ran(job, now) { (fact("Ran", html! { (say::age(ran)) })) }
            @if let Some(limit) = job.time_limit { (fact("Time limit", html! { (model::format_duration(limit)) })) }
            @if let Some(worker) = &job.worker { (fact("Worker", html! { a href={ (app.of("slot", &worker.slot.to_string())) } { (worker) } })) }
            @if let Some(name) = &job.recurring { (fact("Recurring", html! { a href={ (app.of("recurring", name)) } { (text::shown(name)) } })) }
            @if !job.tags.is_empty() {
                (fact("Tags", html! { @for tag in &job.tags { a.tag href=(rows::search(app, &[("tag", tag)])) { (text::short(tag)) } " " } }))
            }
            @for (what, times) in troubles { @if times > 0 { (fact("Trouble", html! { (what) " " (say::counted(times.into(), "time", "times")) })) } }
        }
    }
}

fn timeline(app: &App, job: &JobRecord) -> Markup {
    let mut before: Option<Millis> = None;
    html! {
        ol.timeline {
            @for line in app.words.timeline(job) {
                li {
                    time datetime=(line.at.rfc3339()) { (say::moment(line.at, &app.zone)) }
                    span.later { @if let Some(before) = before.replace(line.at) { "+" (say::age(say::between(before, line.at))) } }
                    div { p { (text::shown(&line.what)) } @for below in &line.below { p.dim { (text::shown(below)) } } }
                }
            }
        }
    }
}

/// Its output so far. The script goes on from there.
async fn output(app: &App, job: &JobRecord) -> Markup {
    let query = OutputQuery { tail: Some(1000), ..OutputQuery::default() };
    let (mut text, mut ansi, mut next, mut note) = (String::new(), Ansi::default(), 0, None);
    match app.source.output(&job.id, &query).await {
        Err(trouble) => note = Some(trouble.message),
        Ok(mut lines) => {
            let read = async {
                loop {
                    let parts = lines.next().await.map_err(Trouble::from)?;
                    if parts.is_empty() {
                        return Ok::<(), Trouble>(());
                    }
                    for part in parts {
                        match part {
                            OutputLine::Part(part) => {
                                text += &ansi.html(&part.text.0);
                                // Reading may stop before the end: the script goes on behind what is shown.
                                next = part.from + part.text.0.len() as u64;
                            }
                            OutputLine::End(end) => {
                                next = end.next;
                                note = missing(&end);
                            }
                        }
                    }
                    if text.len() as u64 > 4 * OUTPUT {
                        let more = format!("taskvisor job logs {}", text::names([job.id.as_str()]));
                        note = Some(format!("There is more: {}", app.typed(&more)));
                        return Ok(());
                    }
                }
            };
            match tokio::time::timeout(std::time::Duration::from_secs(3), read).await {
                Ok(Ok(())) => {}
                Ok(Err(trouble)) => note = Some(trouble.message),
                Err(_) => note = Some("The output did not come within 3 s".into()),
            }
        }
    }
    let follow =
        job.state.is_leased().then(|| format!("{}/output?from={next}", app.of("job", job.id.as_str())));
    html! {
        @if let Some(note) = &note { p.dim { (text::shown(note)) } }
        @if text.is_empty() && follow.is_none() { @if note.is_none() { p.empty { "It has printed nothing." } } }
        @else {
            // The fence names the attempt: when it changes, the script replaces the output of the attempt before.
            div.out tabindex="0" role="log" aria-label="Output" data-keep=(job.fence.0) data-follow=[follow] {
                pre { (PreEscaped(text)) }
            }
        }
    }
}

/// Why the output that has ended is not all of it, if so.
fn missing(end: &OutputEnd) -> Option<String> {
    let elsewhere = end.elsewhere.as_ref();
    elsewhere
        .map(|at| format!("The output of the latest attempt is at the supervisor {}", at.as_str()))
        .or_else(|| end.removed_until.map(|_| "Its output was removed after its time".into()))
}

/// Its processes, while it runs here.
fn living(app: &App, visit: &Visit, why: &Why, job: &JobRecord) -> Markup {
    let slots = why.pools.iter().flat_map(|(pool, _)| &pool.slots);
    let found = slots
        .filter(|slot| slot.jobs.iter().any(|running| running.id == job.id))
        .find_map(|slot| slot.process.as_ref());
    html! {
        @if let Some(process) = found {
            section aria-labelledby="h-tree" { h2 #h-tree { "Its processes now" } (forensics::tree(process))
                @if visit.may_change() { p { a.button href={ (app.of("job", job.id.as_str())) "/picture" } { "What they do" } } }
            }
        }
    }
}

fn failure(job: &JobRecord) -> Markup {
    let Some(failure) = &job.failure else { return html! {} };
    let stderr = job.forensics.as_ref().map(|left| left.stderr_tail.as_str()).unwrap_or_default();
    let trace = failure.trace.as_deref().filter(|trace| *trace != stderr);
    html! {
        section.wide aria-labelledby="h-why" {
            h2 #h-why { @if job.cause().is_some() { "Why it did not complete" } @else { "Why the attempt before did not complete" } }
            p { strong { (text::shown(&failure.group)) } @if !failure.message.is_empty() { ": " (text::shown(&failure.message)) } }
            @if let Some(trace) = trace { (block("Trace", trace)) }
            @if !stderr.trim().is_empty() { (block("Last words on stderr", stderr)) }
        }
    }
}

fn block(name: &str, said: &str) -> Markup {
    html! { details open { summary { (name) } div.out tabindex="0" role="group" aria-label=(name) { pre { (PreEscaped(Ansi::default().html(said.trim_end().as_bytes()))) } } } }
}

/// Its data and its result.
fn content(app: &App, job: &JobRecord) -> Markup {
    let json = |name: &str, id: &str, bytes: &[u8]| {
        let shown = match std::str::from_utf8(bytes) {
            Ok(text) if text.len() <= MOST => Ok(pretty(text.trim(), &app.redact)),
            Ok(_) => Err("is too long to be shown here"),
            Err(_) => Err("is no text"),
        };
        html! {
            section aria-labelledby=(id) {
                h2 id=(id) { (name) " " span.dim { (say::counted(bytes.len() as u64, "byte", "bytes")) } }
                @match shown {
                    Ok(json) => { div.out tabindex="0" role="group" aria-label=(name) { pre.json { (json) } } }
                    Err(why) => { p.dim { "It " (why) ": " code { (text::shown(&app.typed(&format!("taskvisor job show --json {}", text::names([job.id.as_str()]))))) } } }
                }
            }
        }
    };
    html! {
        @match &job.payload {
            Some(Payload::Data(data)) => { (json("Data", "h-data", &data.0)) }
            Some(Payload::Exec(exec)) if !app.redact.all => {
                section aria-labelledby="h-exec" {
                    h2 #h-exec { "Command" }
                    div.out tabindex="0" role="group" aria-label="Command" { pre { (text::lines(&line(exec))) } }
                    p.dim { "in " (text::shown(&exec.cwd.to_text())) ", umask " (format!("{:03o}", exec.umask)) @if !exec.stdin.0.is_empty() { ", " (say::counted(exec.stdin.0.len() as u64, "byte", "bytes")) " on stdin" } }
                }
            }
            Some(Payload::Exec(_)) | None => {}
        }
        @if let Some(result) = &job.result { (json("Result", "h-result", result.as_bytes())) }
    }
}

fn decisions(app: &App, why: &Why) -> Markup {
    if why.decisions.is_empty() {
        return html! {};
    }
    html! { section aria-labelledby="h-dec" { h2 #h-dec { "What the supervisor decided" } (rows::decisions(app, why)) } }
}
