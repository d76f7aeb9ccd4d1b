//! Changes of a recurring job: its schedule, zone, overlap, catch-up and data. The rest of it stays.

use maud::{Markup, html};

use model::verb::ShowRecurring;
use model::{Bytes, Overlap, Payload, Recurring, Schedule, format_duration, parse_duration};

use crate::app::App;
use crate::form::Fields;
use crate::json::MOST;
use crate::text::{of_class, option, quoted};
use crate::trouble::Trouble;

/// The fields of the form.
pub(crate) const FIELDS: [&str; 6] = ["seen", "when", "zone", "overlap", "catch_up", "data"];

/// The form, filled with what holds now.
pub(crate) async fn form(app: &App, name: &str) -> Result<Markup, Trouble> {
    let record = app.source.look(ShowRecurring { name: name.into() }).await?;
    let (seen, now) = (record.put_at.0, record.recurring);
    let (when, zone) = match &now.schedule {
        Schedule::Every { interval, .. } => (format_duration(*interval), String::new()),
        Schedule::Cron { line, zone } => (line.to_string(), zone.clone()),
    };
    let field = |name: &str, label: &str, value: &str| html! { label for=(name) { (label) } input id=(name) name=(name) value=(value) maxlength="1000" spellcheck="false" autocomplete="off"; };
    Ok(html! {
        input type="hidden" name="seen" value=(seen);
        (field("when", "When: a line of crontab, as 0 3 * * *, or an interval, as 10m", &when))
        (field("zone", "Time zone of that line, as Europe/Vienna", &zone))
        (field("overlap", "When it is due and its latest job has not ended: skip or allow", now.overlap.as_str()))
        (field("catch_up", "Make up for what was missed within", &format_duration(now.catch_up)))
        @match &now.job.payload {
            Payload::Data(data) if is_shown(app, data) => {
                label for="data" { "Data, as JSON" }
                textarea #data name="data" rows="12" spellcheck="false" { (std::str::from_utf8(&data.0).unwrap_or_default()) }
            }
            Payload::Data(_) => { p.hint { "Its data is not shown here, and stays." } }
            Payload::Exec(_) => { p.hint { "Its program stays: programs cannot be put from a page." } }
        }
    })
}

/// Whether the data can be changed on a page: what is hidden, or no text, would be lost.
fn is_shown(app: &App, data: &Bytes) -> bool {
    !app.redact.hides_some() && data.0.len() <= MOST && std::str::from_utf8(&data.0).is_ok()
}

/// Carries the change out, and says what holds now.
pub(crate) async fn done(app: &App, name: &str, fields: &Fields, by: &str) -> Result<String, Trouble> {
    let now = app.source.look(ShowRecurring { name: name.into() }).await?;
    // The form sends all its fields: it would undo what another one has changed since.
    if fields.get("seen").is_some_and(|seen| seen != now.put_at.0.to_string()) {
        let message = format!("{name} is not changed: {} has put it since the form was opened", now.put_by);
        return Err(Trouble::new(409, message).hint("open the form again"));
    }
    let changed = changed(now.recurring, fields).map_err(|why| Trouble::new(400, why))?;
    app.source.ask(changed, by).await?;
    Ok(format!("{name} is changed"))
}

/// The command line that does the same.
pub(crate) async fn command(app: &App, name: &str, fields: &Fields) -> Result<String, Trouble> {
    let now = app.source.look(ShowRecurring { name: name.into() }).await?.recurring;
    let shown = changed(now.clone(), fields).unwrap_or(now);
    Ok(line(&shown, app.redact.hides_some()))
}

/// The recurring job as the form says; what the form leaves out stays.
fn changed(mut recurring: Recurring, fields: &Fields) -> Result<Recurring, String> {
    if let Some(when) = fields.get("when").map(str::trim) {
        recurring.schedule = match (parse_duration(when), recurring.schedule) {
            // The offset is not in the form: it stays.
            (Ok(interval), Schedule::Every { offset, .. }) => Schedule::Every { interval, offset },
            (Ok(interval), Schedule::Cron { .. }) => Schedule::Every { interval, offset: interval },
            (Err(_), before) => {
                let line = when
                    .parse()
                    .map_err(|why| format!("'{when}' is neither a line of crontab nor an interval: {why}"))?;
                let zone = match before {
                    Schedule::Cron { zone, .. } => zone,
                    Schedule::Every { .. } => "UTC".into(),
                };
                Schedule::Cron { line, zone: fields.get("zone").map_or(zone, str::to_owned) }
            }
        };
    }
    if let Some(overlap) = fields.get("overlap") {
        recurring.overlap =
            overlap.parse::<Overlap>().map_err(|why| format!("overlap '{overlap}': {why}"))?;
    }
    if let Some(time) = fields.get("catch_up") {
        recurring.catch_up = parse_duration(time).map_err(|why| format!("catch-up '{time}': {why}"))?;
    }
    if let (Some(data), Payload::Data(before)) = (fields.get("data"), &recurring.job.payload) {
        let data = as_typed(data);
        if is_same(&data, before) {
            return Ok(recurring);
        }
        serde_json::from_str::<&serde_json::value::RawValue>(&data)
            .map_err(|error| format!("the data is no JSON: {error}"))?;
        recurring.job.payload = Payload::Data(Bytes(data.as_bytes().to_vec()));
    }
    Ok(recurring)
}

/// What was typed: browsers send each end of a line as CR and LF.
fn as_typed(data: &str) -> String {
    data.replace("\r\n", "\n").trim().to_owned()
}

/// Whether nobody has changed the data, which need be no JSON.
fn is_same(data: &str, before: &Bytes) -> bool {
    std::str::from_utf8(&before.0).is_ok_and(|before| as_typed(before) == data)
}

/// It as a command.
fn line(recurring: &Recurring, hides: bool) -> String {
    let (job, name) = (&recurring.job, recurring.name.as_str());
    // Behind `--` stands its command.
    let name = if name.starts_with('-') { option("name", name) } else { format!(" {}", quoted(name)) };
    let mut line = format!("taskvisor recur put{name}");
    let mut add = |flag: &str, value: &str| line += &option(flag, value);
    match &recurring.schedule {
        Schedule::Every { interval, offset } => {
            add("every", &format_duration(*interval));
            if !offset.is_zero() {
                add("offset", &format_duration(*offset));
            }
        }
        Schedule::Cron { line, zone } => {
            add("cron", &line.to_string());
            add("tz", zone);
        }
    }
    if recurring.overlap == Overlap::Allow {
        add("overlap", "allow");
    }
    if !recurring.catch_up.is_zero() {
        add("catch-up", &format_duration(recurring.catch_up));
    }
    if recurring.backlog != 1 {
        add("backlog", &recurring.backlog.to_string());
    }
    if job.priority != 0 {
        add("priority", &job.priority.to_string());
    }
    job.tags.iter().for_each(|tag| add("tag", tag));
    job.retry.iter().for_each(|retry| add("retries", &retry.retries.to_string()));
    job.time_limit.iter().for_each(|limit| add("time-limit", &format_duration(*limit)));
    job.expires.iter().for_each(|time| add("expires", &format_duration(*time)));
    let (queue, class) = (job.queue.as_str(), job.class.as_str());
    match &job.payload {
        // The page would show in the command what it hides in the form.
        Payload::Data(_) if hides => line + &of_class(queue, class, "…"),
        Payload::Data(data) => line + &of_class(queue, class, &data.to_text()),
        Payload::Exec(_) if hides => line + &option("queue", queue) + " -- …",
        Payload::Exec(exec) => {
            let words: Vec<String> = exec.argv.iter().map(|word| quoted(&word.to_text())).collect();
            line + &option("queue", queue) + &format!(" -- {}", words.join(" "))
        }
    }
}
