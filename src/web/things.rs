//! Carries out orders about a queue, a pool or a recurring job.

use model::verb::{Forget, Pause, PauseRecurring, RemoveRecurring, Resume, ResumeRecurring, RunRecurring};
use model::{Change, Scale};

use crate::app::App;
use crate::form::Fields;
use crate::order::{Deed, Thing};
use crate::trouble::Trouble;
use crate::{edit, options, say};

/// Carries one out, and says what was done.
pub(crate) async fn done(
    app: &App,
    thing: Thing,
    deed: Deed,
    name: &str,
    fields: &Fields,
    by: &str,
) -> Result<String, Trouble> {
    match thing {
        Thing::Queue if deed == Deed::Set => options::done(app, name, fields, by).await,
        Thing::Queue => queue(app, deed, name, fields, by).await,
        Thing::Pool => pool(app, deed, name, fields, by).await,
        Thing::Recurring if deed == Deed::Edit => edit::done(app, name, fields, by).await,
        Thing::Recurring => recurring(app, deed, name, by).await,
    }
}

async fn queue(app: &App, deed: Deed, name: &str, fields: &Fields, by: &str) -> Result<String, Trouble> {
    let queue = name.into();
    if deed == Deed::Pause {
        let reason = fields.get("reason").map(str::to_owned);
        app.source.ask(Pause { queue, reason }, by).await?;
        return Ok(format!("Queue {name} is paused"));
    }
    if deed == Deed::Forget {
        app.source.ask(Forget { queue, discard: false, after: None }, by).await?;
        return Ok(format!("Queue {name} is forgotten"));
    }
    app.source.ask(Resume { queue }, by).await?;
    Ok(format!("Queue {name} is resumed"))
}

async fn recurring(app: &App, deed: Deed, name: &str, by: &str) -> Result<String, Trouble> {
    let said = name;
    let name = name.to_owned();
    match deed {
        Deed::Run => {
            let put = app.source.ask(RunRecurring { name }, by).await?;
            return Ok(format!("Put as {}", put.id));
        }
        Deed::Pause => app.source.ask(PauseRecurring { name }, by).await?,
        Deed::Remove => app.source.ask(RemoveRecurring { name }, by).await?,
        // Of these `DEEDS` gives a recurring job only the first.
        Deed::Resume | Deed::Recycle | Deed::Scale | Deed::Edit | Deed::Forget | Deed::Set => {
            app.source.ask(ResumeRecurring { name }, by).await?
        }
    };
    let word = match deed {
        Deed::Pause => "is paused",
        Deed::Remove => "recurs no more",
        Deed::Run | Deed::Resume | Deed::Recycle | Deed::Scale | Deed::Edit | Deed::Forget | Deed::Set => {
            "goes on"
        }
    };
    Ok(format!("{said} {word}"))
}

async fn pool(app: &App, deed: Deed, name: &str, fields: &Fields, by: &str) -> Result<String, Trouble> {
    let mut how = api::PauseOrder::default();
    let change = match deed {
        Deed::Pause => {
            how.reason = fields.get("reason").map(str::to_owned);
            Change::Pause
        }
        Deed::Recycle => Change::Recycle,
        Deed::Scale => Change::Scale(scale(fields.get("workers").unwrap_or_default())?),
        Deed::Resume | Deed::Run | Deed::Remove | Deed::Edit | Deed::Forget | Deed::Set => Change::Resume,
    };
    let now = app.source.change(Some(name), change, &how, by).await?;
    let workers = now.pools.first().map_or(0, |pool| pool.workers);
    Ok(match deed {
        Deed::Pause => format!("Pool {name} is paused"),
        Deed::Recycle => format!("Pool {name} gets new workers"),
        Deed::Scale => format!("Pool {name} has {} now", say::counted(workers.into(), "worker", "workers")),
        Deed::Resume | Deed::Run | Deed::Remove | Deed::Edit | Deed::Forget | Deed::Set => {
            format!("Pool {name} takes jobs again")
        }
    })
}

/// Reads a number of workers, as `taskvisor scale` does.
fn scale(text: &str) -> Result<Scale, Trouble> {
    let scale = match text.starts_with(['+', '-']) {
        true => text.parse().ok().map(Scale::By),
        false => text.parse().ok().map(Scale::To),
    };
    scale.ok_or_else(|| Trouble::new(400, format!("'{text}' is no number of workers: 4, +2 or -2")))
}
