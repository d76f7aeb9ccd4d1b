//! HTTP, and the waiting of long polls.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::answer::{Answer, Refusal, denied, invalid, throttled};
use super::operations::ranged;
use super::{Shared, World};

/// A server thread that ends on request.
pub fn start(stopped: oneshot::Receiver<()>) -> (Arc<Shared>, JoinHandle<()>) {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("an address");
            let world = Mutex::new(World { random: 1, ..World::default() });
            let shared = Arc::new(Shared { address, world, changed: Notify::new() });
            tell.send(shared.clone()).expect("the test waits");
            tokio::select! {
                () = serve(listener, shared) => {}
                _ = stopped => {}
            }
        });
    });
    (told.recv().expect("the server starts"), thread)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(shared.clone(), request));
            // Errors of clients that go away are ignored.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error closes the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer")]
struct NoAnswer;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, NoAnswer> {
    let target =
        request.headers().get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let action = target.strip_prefix("AmazonSQS.").unwrap_or(target).to_owned();
    let body = request.into_body().collect().await.map_err(|_| NoAnswer)?.to_bytes();
    let knobs = {
        let mut world = shared.world();
        *world.calls.entry(action.clone()).or_default() += 1;
        world.knobs.clone()
    };
    if knobs.gone {
        return Err(NoAnswer);
    }
    if knobs.stalled.contains(&action) {
        while shared.world().knobs.stalled.contains(&action) {
            wait(&shared, Duration::from_millis(50)).await;
        }
    }
    sleep(knobs.latency / 2).await;
    let is_throttled = knobs.throttled.contains(&action) || shared.world().happens(knobs.throttle);
    let answer = match serde_json::from_slice::<Value>(&body) {
        _ if knobs.access_denied || knobs.denied.contains(&action) => Err(denied()),
        _ if is_throttled => Err(throttled()),
        Err(_) => Err(invalid("The request is no JSON")),
        Ok(given) if action == "ReceiveMessage" => tokio::select! {
            biased;
            () = gone(&shared) => return Err(NoAnswer),
            answer = receive(&shared, &given) => answer,
        },
        Ok(given) => {
            let answer = shared.world().act(&action, &given, &shared.address.to_string());
            *shared.world().done.entry(action.clone()).or_default() += 1;
            shared.changed.notify_waiters();
            answer
        }
    };
    sleep(knobs.latency / 2).await;
    if knobs.dropped.contains(&action) || shared.world().happens(knobs.drop_replies) {
        return Err(NoAnswer);
    }
    Ok(response(answer))
}

/// Waits until all connections are to be closed.
async fn gone(shared: &Shared) {
    loop {
        let changed = shared.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if shared.world().knobs.gone {
            return;
        }
        changed.await;
    }
}

/// Waits up to WaitTimeSeconds for a message.
async fn receive(shared: &Shared, given: &Value) -> Answer {
    let queues = shared.world().queue(given)?.number("ReceiveMessageWaitTimeSeconds", 0);
    let seconds = ranged(given, "WaitTimeSeconds", 20)?.unwrap_or(queues);
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        // Registered before the look, so that no later message is missed.
        let changed = shared.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let next = {
            let mut world = shared.world();
            if let Some(messages) = world.receive(given)? {
                return Ok(messages);
            }
            let now = world.now();
            world.queue(given)?.next_visible(now).map(|at| Duration::from_millis(at - now))
        };
        if Instant::now() >= end || shared.world().knobs.impatient {
            return Ok(json!({}));
        }
        let next = next.map_or(end, |next| (Instant::now() + next).min(end));
        tokio::select! {
            () = changed => {}
            () = sleep_until(next) => {}
        }
    }
}

async fn wait(shared: &Shared, most: Duration) {
    let _ = timeout(most, shared.changed.notified()).await;
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().header("content-type", "application/x-amz-json-1.0");
    let body = match answer {
        Ok(body) => body,
        Err(refusal @ Refusal { code, status, .. }) => {
            response = response.status(status).header("x-amzn-query-error", format!("{code};Sender"));
            refusal.body()
        }
    };
    response.body(Full::new(Bytes::from(body.to_string()))).expect("a response")
}
