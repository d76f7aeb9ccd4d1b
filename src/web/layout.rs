//! The frame of every page.

use maud::{DOCTYPE, Markup, html};

use crate::app::{App, Page, Place, Visit};
use crate::assets;
use crate::say;
use crate::session::Role;
use crate::text;
use crate::works::Work;

/// The whole document, or its changing part alone.
pub(crate) fn page(app: &App, visit: &Visit, page: &Page) -> Markup {
    let main = main(app, visit, page);
    if visit.is_fragment {
        return main;
    }
    let head = html! {
        header.top {
            a.skip href="#main" { "To the content" }
            a.brand href=(app.link("/")) { "taskvisor" }
            nav aria-label="Pages" {
                @for (place, path, name) in Place::LINKED {
                    a href=(app.link(path)) aria-current=[(place == page.place).then_some("page")] { (name) }
                }
            }
            div.tools {
                @if visit.role == Role::View { span.role title="This session may look, not change" { "view only" } }
                // The script shows it: without one there is nothing to follow.
                button.quiet #live type="button" hidden aria-pressed="true" title="Follow what happens" { "live" }
                form method="post" action=(app.link("/leave")) { button.quiet type="submit" { "Sign out" } }
            }
        }
    };
    document(app, &page.title, html! { (head) (main) }, true)
}

/// A document without a session: it asks for one.
pub(crate) fn bare(app: &App, title: &str, main: &Markup) -> Markup {
    // The script would ask for what only a session gets.
    document(app, title, html! { main.bare #main { (main) } }, false)
}

fn document(app: &App, title: &str, body: Markup, has_script: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (model::escaped(title)) " · taskvisor" }
                // Without one browsers ask for /favicon.ico.
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(app.link(&assets::path("app.css")));
                // A module runs once the document is parsed.
                @if has_script { script type="module" src=(app.link(&assets::path("app.js"))) {} }
            }
            // The script learns it here, as the policy allows no inline code.
            body data-base=(app.base) { (body) }
        }
    }
}

fn main(app: &App, visit: &Visit, page: &Page) -> Markup {
    html! {
        // The focus must be able to follow the link to the content; a part alone has no `title` element.
        main #main tabindex="-1" data-topics=(page.topics) data-every=[page.every] data-title={ (model::escaped(&page.title)) " · taskvisor" } {
            @if let Some(notice) = &visit.notice {
                div.notice.failed[notice.failed] role="status" {
                    p { (text::shown(&notice.text)) }
                    @if !notice.command.is_empty() { (command(app, &notice.command)) }
                }
            }
            @for work in app.works.shown() { (under_way(&work)) }
            (page.main)
        }
    }
}

fn under_way(work: &Work) -> Markup {
    let done = say::counted(work.done, "job", "jobs");
    html! {
        div.notice.failed[work.end.is_some()] role="status" {
            p {
                (text::shown(&work.what)) ": " (done)
                @match &work.end {
                    Some(Err(why)) => { ", then it failed: " (text::shown(why)) }
                    Some(Ok(())) | None => " so far"
                }
            }
        }
    }
}

/// What `status` says is wrong.
pub(crate) fn reasons(reasons: &[String]) -> Markup {
    html! { @if !reasons.is_empty() { ul.reasons { @for reason in reasons { li { (text::shown(reason)) } } } } }
}

/// The command line that does the same.
pub(crate) fn command(app: &App, line: &str) -> Markup {
    html! { p.command { span.label { "The same in a shell" } code { (text::shown(&app.typed(line))) } } }
}

/// A table that scrolls by itself where the page is narrow.
pub(crate) fn scrolled(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="group" aria-label=(label) { (table) } }
}

/// An empty list, in words.
pub(crate) fn nothing(words: &str) -> Markup {
    html! { p.empty { (words) } }
}

/// A link that looks like a button.
pub(crate) fn button(app: &App, query: &str, word: &str, class: &str) -> Markup {
    html! { a.button.(class) href={ (app.link("/act?")) (query) } { (word) } }
}
