//! Who comes in: by one of our names, with a session, and not sent by a page of somebody else.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::html;

use api::Activity;

use crate::app::{App, Visit};
use crate::cookie;
use crate::enter;
use crate::layout;

/// The policy of every page: nothing but our own files, and nothing within the page that could be made to run.
// `data:` is the empty icon of the page. No style is allowed inline: charts use attributes and classes.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The header of a request for the changing part of a page.
const FRAGMENT: &str = "tv-fragment";

/// Lets a request through, or answers it.
pub(crate) async fn watch(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    // Asked here, as the handler takes the request.
    let is_asset = is_file(request.uri().path());
    let mut response = match judge(&app, &mut request) {
        Ok(()) => next.run(request).await,
        Err(response) => *response,
    };
    // Refusals have these headers, too.
    seal(&mut response);
    // Pages show data of jobs, which the Back button must not bring back after signing out.
    if !is_asset {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Gives an answer the headers that keep other sites out.
pub(crate) fn seal(response: &mut Response) {
    let headers = response.headers_mut();
    let fixed = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        // The address may hold the key or a search line, which no other site may see.
        ("referrer-policy", "no-referrer"),
        // A site that opened this page in a window of its own keeps no handle on that.
        ("cross-origin-opener-policy", "same-origin"),
        // No other site may load a page as an image or a script, to learn from its time or size.
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn judge(app: &App, request: &mut Request) -> Result<(), Box<Response>> {
    let refused = |why: &str| Box::new((StatusCode::FORBIDDEN, why.to_owned() + "\n").into_response());
    let host = host(request.uri(), request.headers()).ok_or_else(|| refused("a request names one host"))?;
    // A page whose own name leads here (DNS rebinding) sends that name. An address cannot be made to lead here.
    if !is_ours(name_of(&host), &app.hosts) {
        return Err(refused("this name is not one of the page's: start it with --host NAME"));
    }
    // OPTIONS is not safe here: the preflight of another site is refused.
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_safe && !is_from_here(request.headers(), &host) {
        return Err(refused("another page has sent this: orders come from this page's own forms"));
    }
    let path = request.uri().path().to_owned();
    // A browser reads it as the name of another host, where a page of ours leads to it.
    if leads_away(&path) {
        return Err(Box::new((StatusCode::NOT_FOUND, "there is no such page\n").into_response()));
    }
    // The page that asks for a token needs its stylesheet.
    if is_file(&path) || matches!(path.as_str(), "/enter" | "/livez") {
        return Ok(());
    }
    let session = cookie::value(request.headers(), &app.cookie).unwrap_or_default();
    let Some(role) = app.sessions.role(&session) else { return Err(Box::new(ask(app, request))) };
    let is_fragment = request.headers().contains_key(FRAGMENT);
    let visit = Visit {
        role,
        url: called(app, request.uri()),
        is_fragment,
        // The API adds the user of the socket: `uid 0 (web)`.
        by: "web".to_owned(),
        // A fragment is fetched by the script at any time: the notice is for the page that comes next.
        notice: if is_fragment || path == "/live" { None } else { app.sessions.told(&session) },
        session,
    };
    // Signing out is the one order that a viewer may give.
    if !is_safe && !visit.may_change() && path != "/leave" {
        return Err(refused("this session may look, not change anything"));
    }
    // With a session it leaves the places of strangers.
    if let Some(doing) = request.extensions().get::<Arc<Activity>>() {
        doing.is_known_now();
    }
    request.extensions_mut().insert(visit);
    Ok(())
}

/// Whether it is the path of a file that needs no session: `/static/PRINT/NAME`.
fn is_file(path: &str) -> bool {
    let parts = path.strip_prefix("/static/").and_then(|rest| rest.split_once('/'));
    parts.is_some_and(|(print, name)| !print.is_empty() && !name.is_empty() && !name.contains('/'))
}

/// Asks who it is. A link on another site comes without the cookie: the same link again, from here, has it.
fn ask(app: &App, request: &Request) -> Response {
    let is_linked = request.headers().get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if is_linked && request.method() == Method::GET {
        let again = called(app, request.uri());
        let page = layout::bare(
            app,
            "One moment",
            &html! {
                meta http-equiv="refresh" content={ "0;url=" (again) };
                p { a href=(again) { "Open the page" } }
            },
        );
        return (StatusCode::OK, page).into_response();
    }
    (StatusCode::UNAUTHORIZED, enter::page(app, None)).into_response()
}

/// Whether a link to this path leads to another host.
fn leads_away(path: &str) -> bool {
    path.starts_with("//") || path.contains('\\')
}

/// The address of a request as the browser has it, without the host.
fn called(app: &App, uri: &Uri) -> String {
    app.link(uri.path_and_query().map_or("/", |path| path.as_str()))
}

/// The host with its port as the browser names it.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut hosts = headers.get_all(header::HOST).iter();
    // Of two Host headers a proxy may have read the other one (RFC 9112, section 3.2).
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let host = host.to_str().ok()?;
    (uri.authority().is_none_or(|authority| authority.as_str() == host)).then(|| host.to_ascii_lowercase())
}

fn name_of(host: &str) -> &str {
    match host.rfind(']') {
        // An IPv6 address has colons of its own.
        Some(bracket) => &host[..=bracket],
        None => host.split(':').next().unwrap_or(host),
    }
}

fn is_ours(name: &str, hosts: &[String]) -> bool {
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name == "localhost"
        || address.parse::<std::net::IpAddr>().is_ok()
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// Whether an order comes from a page of ours. A browser says so itself; an older one, or one without TLS, names the
/// origin.
fn is_from_here(headers: &HeaderMap, host: &str) -> bool {
    match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).is_some_and(|origin| {
            // The scheme is not compared: behind a proxy with TLS it is https there and http here.
            origin.split_once("://").is_some_and(|(_, named)| named.eq_ignore_ascii_case(host))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect::<HeaderMap>()
    }

    #[test]
    fn names_that_a_stranger_can_turn_here_are_refused() {
        let hosts = ["jobs.example.org".to_owned()];
        for (host, ours) in [
            ("127.0.0.1:8080", true),
            ("[::1]:80", true),
            ("10.0.0.7", true),
            ("localhost:1", true),
            ("jobs.example.org", true),
            ("evil.example.org:8080", false),
            ("127.0.0.1.evil.org", false),
        ] {
            assert_eq!(is_ours(name_of(host), &hosts), ours, "{host}");
        }
        let uri = Uri::from_static("/");
        assert_eq!(super::host(&uri, &headers(&[])), None);
    }

    #[test]
    fn orders_come_from_the_page_itself() {
        let host = "127.0.0.1:8080";
        for (sent, ours) in [
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:8080")], false),
            (vec![("sec-fetch-site", "none")], false),
            (vec![("origin", "http://127.0.0.1:8080")], true),
            (vec![("origin", "http://127.0.0.1:9")], false),
            (vec![("origin", "null")], false),
            (vec![], false),
        ] {
            assert_eq!(is_from_here(&headers(&sent), host), ours, "{sent:?}");
        }
    }
}
