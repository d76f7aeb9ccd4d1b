//! `top`: the live screen. The room `top` draws and decides; here is what it asks of a supervisor or a store.

mod desk;
mod orders;
mod pages;
mod streams;

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use self::desk::Desk;
use super::args::top::Top;
use super::args::typed::to_the_same_jobs;
use super::term::screen::Look;
use ::top::ask::{News, Request};
use config::Config;
use failure::{Failure, exit};

/// Draws until `q`.
pub(super) async fn top(config: &Config, args: &Top) -> Result<u8, Failure> {
    let look = Look::of_stdout(args.ascii);
    let (asks, requests) = unbounded_channel();
    let (tell, news) = unbounded_channel();
    let desk = Desk {
        config: config.clone(),
        look: Look { width: None, height: None, tty: false, color: false, ..look.clone() },
        tell,
        way: Mutex::default(),
        status: Mutex::default(),
        waits: Mutex::default(),
    };
    let program = format!("taskvisor {}", to_the_same_jobs(std::env::args_os(), config));
    let served = tokio::spawn(serve(Arc::new(desk), requests));
    let shown = ::top::run(look, args.read_only, program, asks, news).await;
    served.abort();
    shown.map(|()| exit::OK)
}

/// Each request has a task of its own: keys go on meanwhile, and a slow answer keeps no other waiting.
async fn serve(desk: Arc<Desk>, mut requests: UnboundedReceiver<Request>) {
    let (mut events, mut output) = (Task(None), Task(None));
    while let Some(request) = requests.recv().await {
        let desk = desk.clone();
        match request {
            Request::Look(want) => drop(tokio::spawn(async move { desk.look(&want).await })),
            Request::Page(thing, kind) => drop(tokio::spawn(async move {
                let text = pages::text(&desk, &thing, kind).await;
                let text = text.unwrap_or_else(|failure| failure.render());
                desk.say(News::Page { of: thing, kind, text });
            })),
            Request::Do(order) => drop(tokio::spawn(async move {
                let done = orders::carry_out(&desk, &order).await;
                desk.say(News::Done(done.map_err(|failure| failure.in_a_line())));
            })),
            Request::Follow(job) => output = Task(Some(tokio::spawn(streams::output(desk, job)))),
            Request::Unfollow => output = Task(None),
            Request::Events(true) => events = Task(Some(tokio::spawn(streams::events(desk)))),
            Request::Events(false) => events = Task(None),
        }
    }
    drop((events, output));
}

/// A task that ends with its place.
struct Task(Option<JoinHandle<()>>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
