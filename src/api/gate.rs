//! Decides which clients may come in by TCP: those that know a token, where there is one, use one of our names, and are
//! not sent by a foreign web page; and what for, by the token's role. A probe needs none of it, and learns yes or no.
//!
//! The token alone would keep strangers out. The check of names stops a page whose own name leads here (DNS rebinding);
//! the check of origins stops a page opened in a browser that has the token.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::connections::Activity;
use super::probe::{Answers, Probe};
use super::role::Role;
use super::{Peer, Problem, tasks};

/// A gate, whose terms can change while it is in use.
#[derive(Clone)]
pub struct Gate {
    terms: Arc<RwLock<Terms>>,
    answers: Arc<Answers>,
    /// How a refusal is written.
    write: fn(Problem) -> Response,
}

impl Gate {
    /// A gate with these terms.
    pub fn new(terms: Terms) -> Self {
        Gate { terms: Arc::new(RwLock::new(terms)), answers: Arc::default(), write: Problem::into_response }
    }

    /// A gate before routes of QuantumLeap alone: it refuses in the words of those.
    pub fn of_tasks(terms: Terms) -> Self {
        Gate { write: tasks::refused, ..Gate::new(terms) }
    }

    /// Replaces the terms from now on.
    pub fn change(&self, terms: Terms) {
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = terms;
    }

    /// The role of the client, if it may come in.
    fn judge(&self, request: &Request) -> Result<Role, Problem> {
        let terms = self.terms.read().unwrap_or_else(PoisonError::into_inner);
        terms.judge(request.uri(), request.headers())
    }

    /// The probe that this request is. Where clients need no token, there is nothing to be let off from.
    fn probe(&self, request: &Request) -> Option<Probe> {
        let terms = self.terms.read().unwrap_or_else(PoisonError::into_inner);
        terms.tokens.as_ref().and_then(|_| Probe::of(request))
    }
}

/// The terms for clients.
#[derive(Clone)]
pub struct Terms {
    /// The tokens of which clients must send one; None = none, on a port of this machine only.
    pub tokens: Option<Vec<(Role, String)>>,
    /// Names that clients may use besides this machine's own names for itself, in small letters.
    pub hosts: Vec<String>,
    /// Web origins whose pages may send requests.
    pub origins: Vec<String>,
}

/// Lets a request through, or refuses it with a reason.
pub(super) async fn watch(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if let Some(probe) = gate.probe(&request) {
        return gate.answers.to(probe, request, next).await;
    }
    match gate.judge(&request) {
        Ok(role) => {
            // It has shown the token, so it leaves the places of strangers.
            if let Some(doing) = request.extensions().get::<Arc<Activity>>() {
                doing.is_known_now();
            }
            // A client that only puts learns yes or no, as a probe without a token does.
            if role == Role::Put
                && let Some(probe) = Probe::at(&request)
            {
                return gate.answers.to(probe, request, next).await;
            }
            let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
            if let Err(problem) = role.judge(request.method(), route) {
                return (gate.write)(problem);
            }
            if let Some(Peer::Remote { role: shown, .. }) = request.extensions_mut().get_mut::<Peer>() {
                *shown = Some(role);
            }
            next.run(request).await
        }
        Err(problem) if problem.code == 401 => {
            // HTTP wants this header in each 401.
            let ask = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
            (ask, (gate.write)(problem)).into_response()
        }
        Err(problem) => (gate.write)(problem),
    }
}

impl Terms {
    fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Result<Role, Problem> {
        let refused = |why: String| Problem::new(403, why);
        // A web page can have its own name lead here (DNS rebinding), and its browser then sends that name.
        let name = called(uri, headers).map_err(|why| refused(why.into()))?;
        if !self.is_ours(&name) {
            return Err(
                refused(format!("'{name}' is no name of this supervisor")).hint("list it in api.hosts")
            );
        }
        if let Some(origin) = headers.get_all(header::ORIGIN).iter().find(|origin| !self.is_listed(origin)) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            return Err(
                refused(format!("pages of '{origin}' may not use this")).hint("list it in api.origins")
            );
        }
        let Some(known) = &self.tokens else { return Ok(Role::All) };
        let token = bearer(headers)
            .ok_or_else(|| Problem::new(401, "this takes a token").hint("Authorization: Bearer TOKEN"))?;
        // All are compared, so that the time does not say which one it is like.
        let fits = |found: Option<Role>, (role, known): &(Role, String)| {
            if same(token, known.as_bytes()) { Some(*role) } else { found }
        };
        known.iter().fold(None, fits).ok_or_else(|| Problem::new(401, "this is not the token"))
    }

    fn is_ours(&self, name: &str) -> bool {
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        // No name server tells where these lead, so no foreign page can be called so.
        name == "localhost"
            || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            || self.hosts.iter().any(|host| host == name)
    }

    fn is_listed(&self, origin: &HeaderValue) -> bool {
        self.origins.iter().any(|listed| listed.as_bytes() == origin.as_bytes())
    }
}

/// The name by which the client calls us, in small letters and without the port. A request with two different names has
/// none.
fn called(uri: &Uri, headers: &HeaderMap) -> Result<String, &'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("a request names one host");
    };
    let host = host.to_str().map_err(|_| "the host has no name that can be read")?;
    if uri.authority().is_some_and(|authority| authority.as_str() != host) {
        return Err("a request names one host");
    }
    // An IPv6 address stands in brackets, as it has colons of its own.
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let port = &host[end..];
    match port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()) {
        true => Ok(host[..end].to_ascii_lowercase()),
        false => Err("the host has no name that can be read"),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (said, None) = (all.next()?.as_bytes(), all.next()) else { return None };
    let (scheme, token) = said.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Compares in constant time: it takes as long wherever a wrong token differs.
fn same(one: &[u8], other: &[u8]) -> bool {
    // Without `black_box` the compiler may end the loop at the first difference.
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(headers: &[(&str, &str)]) -> Result<Role, u16> {
        let gate = Terms {
            tokens: Some(vec![
                (Role::View, "0123456789abcdeg".into()),
                (Role::All, "0123456789abcdef".into()),
            ]),
            hosts: vec!["jobs.example.org".into()],
            origins: vec!["https://jobs.example.org".into()],
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        gate.judge(&Uri::from_static("/metrics"), &map).map_err(|problem| problem.code)
    }

    const KNOWN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");

    #[test]
    fn requests_with_the_token_are_accepted() {
        let with = |said| judged(&[("host", "localhost:9180"), ("authorization", said)]);
        assert_eq!(with("Bearer 0123456789abcdef"), Ok(Role::All));
        assert_eq!(with("bearer  0123456789abcdef"), Ok(Role::All));
        assert_eq!(with("Bearer 0123456789abcdeg"), Ok(Role::View));
        for said in [
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert_eq!(with(said), Err(401), "{said}");
        }
        assert_eq!(judged(&[("host", "localhost")]), Err(401));
        assert_eq!(judged(&[("host", "localhost"), KNOWN, KNOWN]), Err(401));
    }

    #[test]
    fn a_gate_without_a_token_still_refuses_other_names_and_web_pages() {
        let gate = Terms { tokens: None, hosts: Vec::new(), origins: Vec::new() };
        let judged = |headers: &[(&'static str, &str)]| {
            let named =
                headers.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()));
            let headers: HeaderMap =
                named.collect::<Vec<(axum::http::HeaderName, _)>>().into_iter().collect();
            gate.judge(&Uri::from_static("/v2/notify"), &headers).map_err(|problem| problem.code)
        };
        assert_eq!(judged(&[("host", "localhost:8668")]), Ok(Role::All));
        assert_eq!(judged(&[("host", "evil.example.org")]), Err(403));
        assert_eq!(judged(&[("host", "localhost:8668"), ("origin", "http://localhost:8668")]), Err(403));
    }

    #[test]
    fn requests_for_other_host_names_are_refused_even_with_the_token() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:9180",
            "127.9.9.9",
            "[::1]:9180",
            "[::1]",
            "Jobs.Example.org:80",
        ] {
            assert_eq!(judged(&[("host", host), KNOWN]), Ok(Role::All), "{host}");
        }
        for host in [
            "",
            "evil.example.org",
            "10.0.0.5",
            "localhost.evil.org",
            "localhost:x",
            "[::2]",
            "127.0.0.1.evil.org",
        ] {
            assert_eq!(judged(&[("host", host), KNOWN]), Err(403), "{host}");
        }
        assert_eq!(judged(&[KNOWN]), Err(403));
        assert_eq!(judged(&[("host", "localhost"), ("host", "evil.org"), KNOWN]), Err(403));
    }

    #[test]
    fn requests_from_unlisted_origins_are_refused() {
        let from = |origin| judged(&[("host", "localhost"), KNOWN, ("origin", origin)]);
        assert_eq!(from("https://jobs.example.org"), Ok(Role::All));
        for origin in [
            "http://jobs.example.org",
            "null",
            "",
            "https://jobs.example.org.evil.org",
            "http://localhost:9180",
        ] {
            assert_eq!(from(origin), Err(403), "{origin}");
        }
    }
}
