//! Probes, as those of Kubernetes: requests for `/livez` and `/readyz` by TCP that bring no token. They learn yes or no.

use std::time::Duration;

use axum::Json;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Problem;
use model::verb::Done;

/// How long an answer holds for other probes: however many strangers ask, the supervisor is looked at once a second.
const FRESH: Duration = Duration::from_secs(1);

/// The two probes.
#[derive(Clone, Copy)]
pub(super) enum Probe {
    Live,
    Ready,
}

impl Probe {
    /// The probe that a request without a token is. No probe brings an `Authorization`, and none comes from a web page.
    pub(super) fn of(request: &Request) -> Option<Probe> {
        let plain =
            [header::AUTHORIZATION, header::ORIGIN].iter().all(|name| !request.headers().contains_key(name));
        if plain { Probe::at(request) } else { None }
    }

    /// The probe by its path and method alone.
    pub(super) fn at(request: &Request) -> Option<Probe> {
        match request.uri().path() {
            _ if ![Method::GET, Method::HEAD].contains(request.method()) => None,
            "/livez" => Some(Probe::Live),
            "/readyz" => Some(Probe::Ready),
            _ => None,
        }
    }

    fn no(self, code: StatusCode) -> Problem {
        let what = match self {
            Probe::Live => "not alive",
            Probe::Ready => "not ready",
        };
        Problem::new(code.as_u16(), what).hint("the same request with the token is told why")
    }
}

/// The latest answers.
#[derive(Default)]
pub(super) struct Answers {
    live: Mutex<Option<(Instant, StatusCode)>>,
    ready: Mutex<Option<(Instant, StatusCode)>>,
}

impl Answers {
    /// The answer without its reasons, which name programs and brokers. Probes that come while one is looked up share it.
    pub(super) async fn to(&self, probe: Probe, request: Request, next: Next) -> Response {
        let kept = match probe {
            Probe::Live => &self.live,
            Probe::Ready => &self.ready,
        };
        let mut kept = kept.lock().await;
        let fresh = kept.filter(|(at, _)| at.elapsed() < FRESH);
        let code = match fresh {
            Some((_, code)) => code,
            None => {
                let code = next.run(request).await.status();
                *kept = Some((Instant::now(), code));
                code
            }
        };
        if code.is_success() { Json(Done {}).into_response() } else { probe.no(code).into_response() }
    }
}
