//! What the machine of the supervisor lacks.

use maud::{Markup, html};
use model::{Finding, Fitness};

use crate::app::{App, Page, Place};
use crate::layout::{command, scrolled};
use crate::trouble::Trouble;
use crate::{shape, text};

/// Draws the page. Each look costs the machine something, so the page asks for no new one by itself.
pub(crate) async fn page(app: &App) -> Result<Page, Trouble> {
    let found = app.source.doctor().await?;
    let count = |state| found.count(state);
    let main = html! {
        h1 { "Doctor" }
        p.lead {
            "This host, for this supervisor: " (count(Fitness::Ok)) " ok, " (count(Fitness::Less)) " less, " (count(Fitness::Bad)) " bad"
        }
        p { a href=(app.link("/doctor")) { "Look again" } }
        (scrolled("Findings", html! {
            table {
                thead { tr { th { "What" } th { "State" } th { "Found" } } }
                tbody { @for finding in &found.checks { (row(finding)) } }
            }
        }))
        (command(app, "taskvisor doctor"))
    };
    Ok(Page::new("Doctor", Place::Doctor, "", main))
}

fn row(finding: &Finding) -> Markup {
    html! {
        tr data-key=(finding.name) {
            th scope="row" { (text::short(&finding.name)) }
            td { (shape::fitness(finding.state)) }
            td.what {
                (text::shown(&finding.found))
                @for (word, what) in [("so: ", &finding.effect), ("do: ", &finding.remedy)] {
                    @if !what.is_empty() { " " span.why { (word) (text::shown(what)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_is_text_with_its_effect_and_its_remedy() {
        let row = row(&Finding::bad("/proc", "<b>", "nothing starts", "mount it")).into_string();
        for said in ["&lt;b&gt;", "so: <bdi>nothing starts", "do: <bdi>mount it", ">bad<"] {
            assert!(row.contains(said), "{said}: {row}");
        }
        assert!(!super::row(&Finding::ok("kernel", "new")).into_string().contains("so:"));
    }
}
