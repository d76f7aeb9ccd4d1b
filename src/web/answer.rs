//! Pages on their way out, and what is said where there is none.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::html;

use crate::app::{App, Page, Place, Visit};
use crate::trouble::Trouble;
use crate::{layout, packed, text};

/// Puts a page into its frame, or the trouble that there is none.
pub fn answer(app: &App, visit: &Visit, headers: &HeaderMap, page: Result<Page, Trouble>) -> Response {
    let page = page.unwrap_or_else(|trouble| excuse(&trouble));
    let code = StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    packed::packed(code, headers, &layout::page(app, visit, &page).into_string())
}

/// A page that says what is wrong. It looks again by itself.
fn excuse(trouble: &Trouble) -> Page {
    let title = match trouble.code {
        404 => "Not found",
        400..500 => "Not possible",
        504 => "No answer yet",
        _ => "No answer",
    };
    let main = html! {
        h1 { (title) }
        p.fault role="alert" { (text::shown(&trouble.message)) }
        @if let Some(hint) = &trouble.hint { p.hint { (text::shown(hint)) } }
    };
    let every = (trouble.code >= 500).then_some(2);
    Page { code: trouble.code, every, ..Page::new(title, Place::Other, "*", main) }
}
