//! Pages on their way out, and what is said where there is none.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::html;
use tokio::time::timeout;

use crate::app::{App, Page, Place, Visit};
use crate::trouble::Trouble;
use crate::{layout, packed, text};

/// Limit of the wait for the reasons of a trouble, for which the reader has waited before.
const REASONS: Duration = Duration::from_secs(1);

/// Puts a page into its frame, or the trouble that there is none.
pub(crate) async fn answer(
    app: &App,
    visit: &Visit,
    headers: &HeaderMap,
    page: Result<Page, Trouble>,
) -> Response {
    let page = match page {
        Ok(page) if page.place.outlives_broker() => {
            let reasons = layout::reasons(&reasons(app).await);
            Page { main: html! { (reasons) (page.main) }, ..page }
        }
        Ok(page) => page,
        // What the reader asked for wrongly has nothing to do with the state of the supervisor.
        Err(trouble) if trouble.code < 500 => excuse(app, &trouble, &[]),
        Err(trouble) => excuse(app, &trouble, &reasons(app).await),
    };
    framed(app, visit, headers, &page)
}

/// Says that a request is refused.
pub(crate) fn refusal(app: &App, visit: &Visit, headers: &HeaderMap, trouble: &Trouble) -> Response {
    framed(app, visit, headers, &excuse(app, trouble, &[]))
}

fn framed(app: &App, visit: &Visit, headers: &HeaderMap, page: &Page) -> Response {
    let code = StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    packed::packed(code, headers, &layout::page(app, visit, page).into_string())
}

/// What `status` says is wrong. The supervisor knows of an outage of its broker when a request has waited in vain.
async fn reasons(app: &App) -> Vec<String> {
    match timeout(REASONS, app.source.status(app.live.changed())).await {
        Ok(Ok(Some(status))) => status.reasons.clone(),
        Ok(Ok(None) | Err(_)) | Err(_) => Vec::new(),
    }
}

/// A page that says what is wrong. It looks again by itself.
fn excuse(app: &App, trouble: &Trouble, reasons: &[String]) -> Page {
    let title = match trouble.code {
        404 => "Not found",
        400..500 => "Not possible",
        504 => "No answer yet",
        _ => "No answer",
    };
    let main = html! {
        h1 { (title) }
        p.fault role="alert" { (text::shown(&trouble.message)) }
        (layout::reasons(reasons))
        @if let Some(hint) = &trouble.hint { p.hint { (text::shown(&app.typed(hint))) } }
    };
    // The errors of a client (4xx) do not go away by themselves.
    let every = (trouble.code >= 500).then_some(2);
    // Any event may mean that the cause is gone.
    Page { code: trouble.code, every, ..Page::new(title, Place::Other, "*", main) }
}
