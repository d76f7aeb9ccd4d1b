//! The cookie that carries a session.

use axum::http::{HeaderMap, header};

use crate::app::App;

/// The value of a cookie.
pub(crate) fn value(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = all.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    // The cookie of the longest path comes first (RFC 6265, section 5.4): ours before one of `/`.
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// The header that keeps a session in a browser, or ends it there.
pub(crate) fn set(app: &App, headers: &HeaderMap, session: Option<&str>) -> String {
    // Other services on this host do not get the session sent.
    let (name, path) = (&app.cookie, if app.base.is_empty() { "/" } else { &app.base });
    // A client that forges this header only keeps its own browser from sending the cookie.
    let is_tls = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let secure = if is_tls { "; Secure" } else { "" };
    match session {
        // Without Max-Age it ends with the browser.
        Some(session) => format!("{name}={session}; Path={path}; HttpOnly; SameSite=Strict{secure}"),
        // A browser drops the cookie of this name and path only.
        None => format!("{name}=; Path={path}; HttpOnly; SameSite=Strict; Max-Age=0{secure}"),
    }
}
