//! Carries out orders: a page of the server asks first, with counts, so that no script can skip the question.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tokio::time::timeout;

use model::verb::{Act, Cancel, Fate, Prioritize, Track, Untrack};
use model::{Bytes, Class, JobId, NewJob, Payload};

use crate::answer::{answer, refusal};
use crate::app::{App, Page, Place, Visit};
use crate::form::Fields;
use crate::json::MOST;
use crate::order::{self, Deed, Order, Thing};
use crate::session::Notice;
use crate::trouble::Trouble;
use crate::{bulk, edit, layout, options, say, text, things};

/// Limit of the body of a form, in bytes.
const BODY: usize = 1 << 20;
/// Limit of the time that a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Answers with the page on which a reader confirms an order.
pub(crate) async fn ask(
    State(app): State<Arc<App>>,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    let page = question(&app, &visit, &fields).await;
    answer(&app, &visit, &headers, page).await
}

async fn question(app: &App, visit: &Visit, fields: &Fields) -> Result<Page, Trouble> {
    if !visit.may_change() {
        return Err(Trouble::new(403, "this session may look, not change anything"));
    }
    let order = Order::read(fields).ok_or_else(|| {
        Trouble::new(400, "nothing was chosen").hint("go back, and check the jobs that are meant")
    })?;
    let (about, inputs) = details(app, &order, fields).await?;
    let back = back(app, fields);
    let kept = fields.0.iter().filter(|(name, _)| !inputs.names.contains(&name.as_str()));
    let command = command(app, &order, fields).await?;
    let main = html! {
        h1 { (text::shown(&order.title())) }
        form.ask method="post" action=(app.link("/act")) {
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            (about)
            (inputs.markup)
            (layout::command(app, &command))
            div.buttons {
                button.main.danger[order.is_final()] type="submit" autofocus { (order.verb()) }
                a.button href=(back) { "Leave it" }
            }
        }
    };
    Ok(Page::new(order.title(), Place::Other, "", main))
}

/// The command line that does the same.
async fn command(app: &App, order: &Order, fields: &Fields) -> Result<String, Trouble> {
    if let Order::Of { thing: Thing::Recurring, deed: Deed::Edit, name } = order {
        return edit::command(app, name, fields).await;
    }
    if let Order::Of { deed: Deed::Set, name, .. } = order {
        return options::command(app, name, fields).await;
    }
    if let Order::Again(job) = order {
        return Ok(order::again(&app.source.job(&job.as_str().into()).await?, fields, &app.redact));
    }
    Ok(order.command(fields))
}

/// The fields that the reader fills in.
#[derive(Default)]
struct Inputs {
    names: Vec<&'static str>,
    markup: Markup,
}

/// What an order is about, and what is to be filled in.
async fn details(app: &App, order: &Order, fields: &Fields) -> Result<(Markup, Inputs), Trouble> {
    let typed = |name: &'static str, label: &str, kind: &str, value: &str| Inputs {
        names: vec![name],
        markup: html! {
            label for=(name) { (label) }
            input id=(name) name=(name) type=(kind) value=(value) maxlength="1000";
        },
    };
    Ok(match order {
        Order::Retry(jobs) | Order::Discard(jobs) => (bulk::named(jobs), Inputs::default()),
        Order::Cancel(jobs) => {
            let reason = fields.get("reason").unwrap_or_default();
            (bulk::named(jobs), typed("reason", "Why, for those who look at the jobs", "text", reason))
        }
        Order::Track(job, _) => (bulk::named(std::slice::from_ref(job)), Inputs::default()),
        Order::Prioritize(job) => {
            let found = app.source.job(&job.as_str().into()).await?;
            let value = found.priority.to_string();
            (
                bulk::named(std::slice::from_ref(job)),
                typed("priority", "Priority: higher runs first", "number", &value),
            )
        }
        Order::Again(job) => (bulk::named(std::slice::from_ref(job)), edited(app, job).await?),
        Order::Bulk(all) => (bulk::count(app, all).await?, Inputs::default()),
        Order::Of { deed: Deed::Edit, name, .. } => {
            let about = html! { p { "Put again it changes; with the same schedule it is due when it was." } };
            (about, Inputs { names: edit::FIELDS.into(), markup: edit::form(app, name).await? })
        }
        Order::Of { thing, deed, name } => {
            let about = html! { p { (meaning(*thing, *deed)) } };
            let inputs = match (thing, deed) {
                (Thing::Queue | Thing::Pool, Deed::Pause) => typed(
                    "reason",
                    "Why, for others to read",
                    "text",
                    fields.get("reason").unwrap_or_default(),
                ),
                (_, Deed::Set) => {
                    Inputs { names: options::fields(), markup: options::form(app, name).await? }
                }
                (_, Deed::Scale) => {
                    typed("workers", "Workers: a number, or +2 more, or -2 fewer", "text", "+1")
                }
                _ => Inputs::default(),
            };
            (about, inputs)
        }
    })
}

/// What an order leads to, in a sentence.
fn meaning(thing: Thing, deed: Deed) -> &'static str {
    match (thing, deed) {
        (Thing::Queue, Deed::Pause) => {
            "No supervisor takes jobs from it until it is resumed. Those that run go on."
        }
        (Thing::Queue, Deed::Forget) => "It leaves the lists with its statistics, if it has no jobs.",
        (Thing::Queue, Deed::Set) => "It holds for all supervisors, from now on.",
        (Thing::Queue, _) => "Supervisors take jobs from this queue again.",
        (Thing::Pool, Deed::Pause) => {
            "This pool takes no more jobs until it is resumed. Those that run go on."
        }
        (Thing::Pool, Deed::Recycle) => {
            "Every worker of this pool is replaced after its job, a quarter at a time."
        }
        (Thing::Pool, Deed::Scale) => "It has this number of workers until the settings say another one.",
        (Thing::Pool, _) => "This pool takes jobs again.",
        (Thing::Recurring, Deed::Run) => "Its job is put now, whatever its schedule and its latest job.",
        (Thing::Recurring, Deed::Pause) => "It puts no jobs until it is resumed.",
        (Thing::Recurring, Deed::Remove) => "It recurs no more. The jobs that it has put stay.",
        (Thing::Recurring, _) => "It goes on; what was due meanwhile is made up within its catch-up time.",
    }
}

/// The data of a job, to be changed.
async fn edited(app: &App, job: &str) -> Result<Inputs, Trouble> {
    let found = app.source.job(&job.into()).await?;
    let is_hidden = app.redact.hides_some();
    let data = match &found.payload {
        // What is not shown whole would be lost when the form is sent.
        Some(Payload::Data(data)) if data.0.len() <= MOST && !is_hidden => {
            std::str::from_utf8(&data.0).unwrap_or_default().to_owned()
        }
        Some(Payload::Data(_)) => String::new(),
        Some(Payload::Exec(_)) | None => {
            return Err(Trouble::new(403, "programs cannot be put from a page")
                .hint("taskvisor put -- COMMAND; Retry runs this one again as it is"));
        }
    };
    Ok(Inputs {
        names: vec!["queue", "class", "data"],
        markup: html! {
            p { "A new job is put; this one stays as it is." }
            label for="queue" { "Queue" } input #queue name="queue" value=(found.queue) maxlength="256" required;
            label for="class" { "Class" } input #class name="class" value=(found.class) maxlength="256" required;
            label for="data" { "Data, as JSON" }
            textarea #data name="data" rows="12" spellcheck="false" { (data) }
            @if is_hidden { p.hint { "Its data is hidden here, so it begins empty." } }
        },
    })
}

/// Where to go after that: a place of ours.
fn back(app: &App, fields: &Fields) -> String {
    let is_ours =
        // Browsers read `//host` and `/\host` as another host.
        |path: &&str| path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\n', '\r']);
    let below = |path: &&str| path.strip_prefix(&app.base).is_some_and(|rest| rest.starts_with('/'));
    // Anybody can make a link to a question, with any way back.
    let path = fields.get("back").filter(is_ours).filter(below).map(str::to_owned);
    path.filter(|path| path.is_ascii() && !path.contains(char::is_control)).unwrap_or_else(|| app.link("/"))
}

/// Carries out an order and leads back.
pub(crate) async fn carry_out(
    State(app): State<Arc<App>>,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let refused = |why: &str| refusal(&app, &visit, &headers, &Trouble::new(400, why));
    let bytes = match timeout(BODY_TIME, axum::body::to_bytes(body, BODY)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return refused("the order is longer than 1 MiB"),
        Err(_) => return refused("the order did not come within 30 s"),
    };
    let fields = Fields::read(&String::from_utf8_lossy(&bytes));
    let Some(order) = Order::read(&fields) else { return refused("nothing was chosen") };
    let command = command(&app, &order, &fields).await.unwrap_or_default();
    let notice = match done(&app, &visit, order, &fields).await {
        Ok(text) => Notice { text, command, failed: false },
        Err(trouble) => {
            let hint = trouble.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            Notice { text: trouble.message + &hint, command, failed: true }
        }
    };
    // The next page must not show the status from before the order.
    app.live.touch();
    app.sessions.tell(&visit.session, notice);
    // After 303 the browser asks by GET: to load that page again orders nothing again.
    (StatusCode::SEE_OTHER, [(header::LOCATION, back(&app, &fields))]).into_response()
}

async fn done(app: &Arc<App>, visit: &Visit, order: Order, fields: &Fields) -> Result<String, Trouble> {
    let by = visit.by.as_str();
    match order {
        Order::Retry(jobs) => bulk::each(app, jobs, Act::Retry, by).await,
        Order::Discard(jobs) => bulk::each(app, jobs, Act::Discard, by).await,
        Order::Cancel(jobs) => {
            let jobs: Vec<JobId> = jobs.into_iter().map(JobId::from).collect();
            let reason = fields.get("reason").map(str::to_owned);
            let fates = app.source.ask(Cancel { jobs, dependents: false, reason }, by).await?;
            let done = fates.iter().filter(|each| matches!(each.fate, Fate::State(_))).count();
            let left = fates.len() - done;
            let rest = if left > 0 {
                format!("; {} not in a state for that", say::counted(left as u64, "was", "were"))
            } else {
                String::new()
            };
            Ok(format!("{} canceled{rest}", say::counted(done as u64, "job", "jobs")))
        }
        Order::Track(job, true) => {
            app.source.ask(Track { job: job.into() }, by).await.map(|_| "It is followed".into())
        }
        Order::Track(job, false) => {
            app.source.ask(Untrack { job: job.into() }, by).await.map(|_| "It is followed no more".into())
        }
        Order::Prioritize(job) => {
            let typed = fields.get("priority").unwrap_or_default();
            let priority = typed
                .parse()
                .map_err(|_| Trouble::new(400, format!("'{typed}' is no priority: it is a whole number")))?;
            app.source.ask(Prioritize { job: job.into(), priority }, by).await?;
            Ok(format!("Its priority is {priority} now"))
        }
        Order::Again(job) => again(app, &job, fields, by).await,
        Order::Bulk(all) => bulk::sweep(app, all, by).await,
        Order::Of { thing, deed, name } => things::done(app, thing, deed, &name, fields, by).await,
    }
}

/// Puts a job like another one, with the data of the form.
async fn again(app: &App, job: &str, fields: &Fields, by: &str) -> Result<String, Trouble> {
    let before = app.source.job(&job.into()).await?;
    let missing = |what: &str| Trouble::new(400, format!("{what} is missing"));
    let queue = fields.get("queue").ok_or_else(|| missing("the queue"))?;
    let class =
        // The form offers no program, but a request need not come from the form.
        fields.get("class").filter(|class| *class != Class::EXEC).ok_or_else(|| missing("the class"))?;
    let data = fields.get("data").unwrap_or("null").trim();
    // Only checked: as values large numbers would lose digits.
    if let Err(error) = serde_json::from_str::<&serde_json::value::RawValue>(data) {
        return Err(Trouble::new(400, format!("the data is no JSON: {error}")));
    }
    let new = NewJob {
        priority: before.priority,
        tags: before.tags,
        retry: before.retry,
        time_limit: before.time_limit,
        ..NewJob::new(queue.into(), class.into(), Payload::Data(Bytes(data.as_bytes().to_vec())))
    };
    let id = app.source.put(new, by).await?;
    Ok(format!("Put as {id}"))
}
