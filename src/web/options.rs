//! What is set for one queue, for all supervisors: shown on its page, and changed there.

use maud::{Markup, html};

use model::verb::{OptionShown, SetOption, ShowOptions, UnsetOption};
use model::{OptionName, QueueName};

use crate::app::App;
use crate::form::Fields;
use crate::text::{names, option};
use crate::trouble::Trouble;
use crate::{layout, text};

/// The fields of the form: the options that a queue can have.
pub(crate) fn fields() -> Vec<&'static str> {
    of_queues().map(OptionName::as_str).collect()
}

fn of_queues() -> impl Iterator<Item = OptionName> {
    OptionName::ALL.into_iter().filter(|name| name.is_of_queues())
}

/// What holds for a queue: the value of its own, and that of all queues.
struct Held {
    name: OptionName,
    own: Option<OptionShown>,
    all: Option<OptionShown>,
}

async fn held(app: &App, queue: &str) -> Result<Vec<Held>, Trouble> {
    let shown = app.source.look(ShowOptions {}).await?;
    let find = |name: OptionName, queue: Option<&str>| {
        let is_it = |one: &&OptionShown| {
            one.name == name.as_str() && one.queue.as_ref().map(QueueName::as_str) == queue
        };
        shown.iter().find(is_it).cloned()
    };
    Ok(of_queues().map(|name| Held { name, own: find(name, Some(queue)), all: find(name, None) }).collect())
}

/// The options of a queue; nothing where its broker has none.
pub(crate) async fn section(app: &App, queue: &str, button: Markup) -> Markup {
    let Ok(all) = held(app, queue).await else { return html! {} };
    let known = |one: &&Held| one.own.is_some() || one.all.is_some();
    html! {
        @if all.iter().any(|one| known(&one)) {
            section.wide aria-labelledby="h-options" {
                div.head { h2 #h-options { "Options" } (button) }
                (layout::scrolled("Options", html! {
                    table {
                        thead { tr { th { "Option" } th { "Value" } th { "From" } th { "What" } } }
                        tbody { @for one in all.iter().filter(known) {
                            @if let Some(shown) = one.own.as_ref().or(one.all.as_ref()) {
                                tr data-key=(one.name) {
                                    th scope="row" { (one.name.as_str()) } td data-option=(one.name.as_str()) { (text::short(&shown.value)) }
                                    td { @if one.own.is_some() { "this queue" } @else if shown.is_set { "all queues" } @else { span.dim { "default" } } }
                                    td.what { (shown.does) }
                                }
                            }
                        } }
                    }
                }))
            }
        }
    }
}

/// The form, filled with what the queue has of its own.
pub(crate) async fn form(app: &App, queue: &str) -> Result<Markup, Trouble> {
    let all = held(app, queue).await?;
    Ok(html! {
        @for one in &all {
            @let name = one.name.as_str();
            label for=(name) { (name) ": " (one.name.does()) }
            input id=(name) name=(name) value=(one.own.as_ref().map_or("", |own| own.value.as_str())) placeholder=(one.all.as_ref().map_or("", |all| all.value.as_str())) maxlength="100" spellcheck="false" autocomplete="off";
        }
        p.hint { "An empty field takes what is set for all queues." }
    })
}

/// A change of one option: to a value, or to what is set for all queues.
type Change = (OptionName, Option<String>);

/// What a form changes. A field that it leaves out stays.
async fn changes(app: &App, queue: &str, fields: &Fields) -> Result<Vec<Change>, Trouble> {
    let held = held(app, queue).await?;
    let typed = |name: &str| fields.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
    let change = |one: Held| {
        let (own, typed) = (one.own.map(|own| own.value), typed(one.name.as_str())?);
        let wanted = (!typed.is_empty()).then(|| typed.to_owned());
        (wanted != own).then_some((one.name, wanted))
    };
    Ok(held.into_iter().filter_map(change).collect())
}

/// Carries a form out, and says what was done.
pub(crate) async fn done(app: &App, queue: &str, fields: &Fields, by: &str) -> Result<String, Trouble> {
    let changes = changes(app, queue, fields).await?;
    // All are checked before the first is set.
    for (name, wanted) in &changes {
        wanted
            .iter()
            .try_for_each(|value| name.read(value).map(drop))
            .map_err(|why| Trouble::new(400, why))?;
    }
    for (name, wanted) in &changes {
        let (name, of) = (name.as_str().to_owned(), Some(queue.into()));
        match wanted.clone() {
            Some(value) => app.source.ask(SetOption { name, value, queue: of }, by).await?,
            None => app.source.ask(UnsetOption { name, queue: of }, by).await?,
        };
    }
    let count = changes.len();
    Ok(match count {
        0 => format!("Nothing of queue {queue} was changed"),
        _ => format!("{} of queue {queue}: set", if count == 1 { "One option" } else { "The options" }),
    })
}

/// The command lines that do the same; without a change the one that shows what holds.
pub(crate) async fn command(app: &App, queue: &str, fields: &Fields) -> Result<String, Trouble> {
    let lines: Vec<String> = changes(app, queue, fields)
        .await?
        .into_iter()
        .map(|(name, wanted)| match wanted {
            Some(value) => {
                let of = option("queue", queue);
                format!("taskvisor option set{of} {}", names([name.as_str(), &value]))
            }
            None => format!("taskvisor option unset{} {name}", option("queue", queue)),
        })
        .collect();
    Ok(match lines.is_empty() {
        true => format!("taskvisor option get{}", option("queue", queue)),
        false => lines.join(" && "),
    })
}
