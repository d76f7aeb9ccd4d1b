//! The way in and out: the one-time key, and tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tokio::sync::Mutex;

use crate::app::{App, Visit};
use crate::cookie;
use crate::form::Fields;
use crate::layout;

/// Limit of the bytes of a token that is shown.
const LONGEST: usize = 4096;
/// Delay of the answer to a wrong token. Only one is answered at a time, so that tokens cannot be guessed by trying
/// many.
const SLOW: Duration = Duration::from_millis(300);

/// The page that asks for a token.
pub(crate) fn page(app: &App, wrong: Option<&str>) -> Markup {
    layout::bare(
        app,
        "Sign in",
        &html! {
            h1 { "taskvisor" }
            @if let Some(wrong) = wrong { p.fault role="alert" { (wrong) } }
            @if app.sessions.takes_tokens() {
                form method="post" action=(app.link("/enter")) {
                    label for="token" { "Token" }
                    // Password managers find the field by these attributes.
                    input #token name="token" type="password" autocomplete="current-password" required autofocus;
                    button.main type="submit" { "Sign in" }
                }
            } @else {
                p { "This page opens by the address that " code { "taskvisor web" } " has printed, once." }
                p { "For another browser start it again, or give it a token: " code { "taskvisor web --login-token-file FILE" } }
            }
        },
    )
}

/// Opens a session by the key.
pub(crate) async fn by_key(
    State(app): State<Arc<App>>,
    method: Method,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    // A program that previews links asks so, and would spend the key of the reader.
    if method == Method::HEAD {
        return StatusCode::OK.into_response();
    }
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    // The form for a token is at this path, too.
    let Some(key) = fields.get("key") else { return refused(&app, None) };
    match app.sessions.by_key(key) {
        Ok(Some(session)) => come_in(&app, &headers, &session),
        Ok(None) => {
            slowly().await;
            refused(&app, Some("This address was used already, or belongs to a process that has ended."))
        }
        Err(error) => failed(&error),
    }
}

/// Opens a session by a token.
pub(crate) async fn by_token(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    // Strangers may send here: neither a slow nor a long body holds a connection.
    let read = tokio::time::timeout(Duration::from_secs(10), axum::body::to_bytes(body, LONGEST)).await;
    let Ok(Ok(bytes)) = read else { return StatusCode::BAD_REQUEST.into_response() };
    let fields = Fields::read(&String::from_utf8_lossy(&bytes));
    // A token that is copied from its file ends with a newline.
    match app.sessions.by_token(fields.get("token").unwrap_or_default().trim()) {
        Ok(Some(session)) => come_in(&app, &headers, &session),
        Ok(None) => {
            slowly().await;
            refused(&app, Some("This is not the token."))
        }
        Err(error) => failed(&error),
    }
}

/// Ends the session.
pub(crate) async fn leave(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Extension(visit): Extension<Visit>,
) -> Response {
    app.sessions.end(&visit.session);
    let gone = [(header::SET_COOKIE, cookie::set(&app, &headers, None))];
    (gone, page(&app, Some("You are signed out."))).into_response()
}

async fn slowly() {
    static LINE: Mutex<()> = Mutex::const_new(());
    // Only wrong tokens stand in this line, so guessing keeps nobody out.
    let _turn = LINE.lock().await;
    tokio::time::sleep(SLOW).await;
}

/// A page of ours that leads on: a browser sends a strict cookie only from there.
fn come_in(app: &App, headers: &HeaderMap, session: &str) -> Response {
    let page = layout::bare(
        app,
        "Welcome",
        &html! {
            meta http-equiv="refresh" content={ "0;url=" (app.link("/")) };
            p { a href=(app.link("/")) { "To the overview" } }
        },
    );
    ([(header::SET_COOKIE, cookie::set(app, headers, Some(session)))], page).into_response()
}

fn refused(app: &App, why: Option<&str>) -> Response {
    (StatusCode::UNAUTHORIZED, page(app, why)).into_response()
}

fn failed(error: &std::io::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("no session could be made: {error}\n")).into_response()
}
