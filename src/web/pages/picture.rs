//! What the processes of a running job do: a look that a reader asks for, as it makes workers print their stacks.

use maud::html;

use model::JobId;

use super::{forensics, rows};
use crate::app::{App, Page, Place, Visit};
use crate::layout::command;
use crate::trouble::Trouble;
use crate::{say, text};

/// Draws the picture of a job's processes. Who may not change anything does not see open files, as by the API.
pub(crate) async fn page(app: &App, visit: &Visit, id: &JobId) -> Result<Page, Trouble> {
    if !visit.may_change() {
        return Err(Trouble::new(403, "this session may look, but not at the open files of processes"));
    }
    let picture = app.redact.picture(app.source.picture(id).await?);
    let main = html! {
        h1 { "What the processes of a job do" }
        p.lead { (rows::link(app, id.as_str())) " in worker " (text::shown(&picture.worker.to_string())) ", " (say::moment(picture.at, &app.zone)) }
        @if picture.others > 0 { p.dim { "Its worker runs " (say::counted(picture.others, "other job", "other jobs")) ", too: what those do is shown with it" } }
        @if !picture.strangers.is_empty() { p.dim { "Some run as other users than the supervisor: of these it may not know all" } }
        (forensics::snapshot(&picture.seen))
        (command(app, &format!("taskvisor job picture {}", text::names([id.as_str()]))))
    };
    Ok(Page::new(format!("Processes of job {}", id.shown()), Place::Jobs, "", main))
}
