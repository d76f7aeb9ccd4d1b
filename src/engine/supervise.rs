//! The whole life of a supervisor, from the keeper's hello to the last order.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tracing::{info, warn};

use super::authors::Authors;
use super::broker_calls::BrokerCalls;
use super::code_watch;
use super::count_cache::HANGS;
use super::effects::Effects;
use super::event_loop::{Ended, run};
use super::failing::Failing;
use super::found::found_event;
use super::fresh::{Examine, KeepChanges, ReadSettings, ShowSettings, SpawnSpecs};
use super::inbox::Inbox;
use super::lasting::LastingChanges;
use super::line::Line;
use super::logs::Logs;
use super::lookout::{Lookout, RunFiles};
use super::mutes::Mutes;
use super::orders;
use super::page_seen::PageSeen;
use super::presence::PresencePublisher;
use super::record::Record;
use super::recover::recover;
use super::reload::Reloader;
use super::reports::Reports;
use super::request::Request;
use super::service::ApiService;
use super::size_clock::SizeClock;
use super::snapshots::Snapshots;
use super::spool_taker;
use super::systemd::Systemd;
use super::task_ttls::set_ttls;
use super::telemetry::Telemetry;
use super::tellers::Tellers;
use super::unborn::Unborn;
use super::unconfirmed::UnconfirmedVerdicts;
use super::worker_calls::WorkerCalls;
use broker::{Broker, Complaints, EventBus, Notice};
use log::{Outputs, OwnLog, Places};
use model::{Instance, LogSettings, PoolSettings, Settings, SpawnSpec};
use outbox::Outbox;
use process::{Alarm, Children, Gauge, KeeperMessage, Link, Removed, snapshot, usage};
use spool::Desk;
use supervisor::{Event, GaveUp, Supervisor};
use wire::keeper::{Hello, Order, Report};

/// A TCP listener, whether programs may be put by it, and its gate.
pub(crate) type Port = (TcpListener, bool, api::Gate);

/// The TCP ports of a supervisor.
struct Ports {
    /// The one with the whole API.
    all: Option<Port>,
    /// The one with the routes of QuantumLeap alone.
    tasks: Option<Port>,
}

/// Parameters of a supervisor.
pub struct Setup {
    /// The settings to run by.
    pub settings: Settings,
    /// How to make the workers of each pool.
    pub specs: Vec<SpawnSpec>,
    /// The holder of the leases: one per state directory.
    pub instance: Instance,
    /// The broker of the jobs.
    pub broker: Arc<Broker>,
    /// The broker's name without secrets.
    pub broker_name: String,
    /// The socket to the keeper.
    pub keeper: OwnedFd,
    /// The path of the API's socket, for workers that put jobs by themselves.
    pub socket: PathBuf,
    /// The parent of the directories of slots, for pools that have them.
    pub sandboxes: PathBuf,
    /// The socket on which the API listens.
    pub listener: UnixListener,
    /// Makes that socket and the files beside it again, when somebody has removed them.
    pub run_files: RunFiles,
    /// The state directory, whose disk can be full.
    pub state_dir: PathBuf,
    /// The group whose members may use it, too.
    pub members: Option<api::Members>,
    /// A TCP listener of the API, for clients that pass the gate.
    pub port: Option<Port>,
    /// A TCP listener for the routes of QuantumLeap alone.
    pub task_port: Option<Port>,
    /// The supervisor's own log.
    pub log: OwnLog,
    /// How much of the output of jobs and slots to keep.
    pub outputs: LogSettings,
    /// Where to keep that output.
    pub places: Places,
    /// Reads the settings again.
    pub read_settings: ReadSettings,
    /// Shows those in force.
    pub show_settings: ShowSettings,
    /// Looks at what this machine lacks.
    pub examine: Examine,
    /// Who paused which pool, as an earlier supervisor has stored it.
    pub authors: Authors,
    /// Stores people's changes of pools, so that they outlive this supervisor.
    pub keep_changes: KeepChanges,
    /// Settings for notifications; `None` = none are accepted.
    pub tasks: Option<wq::Settings>,
    /// Where members of that group leave puts while no supervisor listens.
    pub spool: Option<Desk>,
    /// Keeps new jobs that cannot be put now.
    pub outbox: Option<Arc<Outbox>>,
    /// The command by which a newcomer puts a first job.
    pub first_step: Option<String>,
    /// The page for browsers beside this supervisor.
    pub page: Option<PageSeen>,
}

/// Runs until a stop is done or the keeper is gone.
pub async fn supervise(setup: Setup) -> io::Result<Ended> {
    let Some((link, (hello, keeper), left)) = greet(setup.keeper).await? else {
        return Ok(Ended::KeeperGone);
    };
    let (outputs, alarm) = (Outputs::start(&setup.outputs, setup.places)?, Alarm::new()?);
    let (inbox, events, requests, answers) = Inbox::new(alarm);
    let mut spawn_specs = SpawnSpecs::new(setup.socket.clone(), setup.sandboxes.clone());
    let mut settings = setup.settings;
    spawn_specs.number(&mut settings, setup.specs, std::iter::empty());
    let plans = settings.pools.iter().filter_map(|pool| spawn_specs.plan(pool)).collect();
    let (cap, dir, gauge) = (setup.outputs.job_cap, setup.sandboxes, gauge(events.clone())?);
    let removed = removed(setup.broker.complaints().clone());
    let children = Children::new(plans, outputs.clone(), gauge, cap, (dir, removed))?;
    let (size_clock, event_bus) = (SizeClock::start(&mut settings.pools), event_bus(&setup.broker));
    say_hello(hello, &settings.pools, &setup.broker_name, setup.first_step);
    let failing = Failing::new(setup.broker.complaints().clone(), setup.state_dir);
    let (broker, lease) = (setup.broker.clone(), settings.lease);
    let mut effects = Effects {
        link,
        children,
        logs: Logs::new(outputs, setup.log),
        hello,
        keeper,
        calls: BrokerCalls::new(broker.clone(), events.clone(), setup.instance, lease, failing.clone()),
        worker_calls: WorkerCalls::new(broker, requests.clone(), answers),
        failing,
        reports: Reports::default(),
        snapshots: Snapshots::new(snapshot::look),
        tellers: Tellers::new(&settings.pools, event_bus),
        known: Vec::new(),
        spawn_specs,
        reloader: Reloader::new(setup.read_settings, requests.clone()),
        changes: LastingChanges::new(setup.authors, setup.keep_changes),
        waiting_for_rest: Vec::new(),
        systemd: Systemd::new(hello.notify),
        record: Record::new(settings.held_degrades),
        stop_deadline: settings.stop_deadline,
        presence: PresencePublisher::new(clock::now(), setup.broker.card().shared),
        last: UnconfirmedVerdicts::of(settings.burst.then(|| setup.broker.clone())),
        mutes: Mutes::default(),
        size_clock,
        unborn: Unborn::default(),
        inherited: HashMap::new(),
    };
    // Before anything is fetched: a job whose process still lives must not be handed out again.
    if let Err(error) = take_over(&mut effects, left, &mut settings).await {
        return end_of_burst(&mut effects, settings.burst, error);
    }
    code_watch::watch(&settings.watch, &requests)?;
    let tasks = begin_tasks(setup.tasks, &setup.broker, &mut effects.tellers)?;
    let outbox = pass_on(setup.outbox, &mut effects.record);
    // Before the API listens: what members have left came first.
    spool_taker::start(setup.spool, &setup.broker).await;
    let desk = ApiService::new(&effects, requests, setup.broker_name, tasks, outbox);
    let (show_settings, examine) = (Some(setup.show_settings), Some(setup.examine));
    let desk = ApiService { page: setup.page, show_settings, examine, ..desk };
    let ports = Ports { all: setup.port, tasks: setup.task_port };
    let files = (setup.socket, setup.run_files);
    open_doors((setup.listener, setup.members), files, ports, Arc::new(desk), &effects)?;
    tokio::spawn(listen(setup.broker, events));
    run(Supervisor::new(settings, clock::now()), effects, inbox).await
}

/// Has the outbox put its jobs, now and whenever the broker is back.
fn pass_on(outbox: Option<Arc<Outbox>>, record: &mut Record) -> Option<Arc<Outbox>> {
    outbox.iter().for_each(|outbox| drop(tokio::spawn(outbox.clone().pass_on())));
    record.outbox.clone_from(&outbox);
    outbox
}

/// Starts what the settings of tasks ask for, and gives the settings for the API.
fn begin_tasks(
    tasks: Option<wq::Settings>,
    broker: &Arc<Broker>,
    tellers: &mut Tellers,
) -> io::Result<Option<Arc<wq::Settings>>> {
    let Some(tasks) = tasks.map(Arc::new) else { return Ok(None) };
    tokio::spawn(set_ttls(broker.clone(), tasks.clone()));
    if let Some(dir) = &tasks.telemetry_dir {
        tellers.set_telemetry(Telemetry::start(dir, tasks.clone(), broker.clone())?);
    }
    Ok(Some(tasks))
}

/// Starts the thread that measures memory and processes; its findings become events.
fn gauge(told: Sender<Event>) -> io::Result<Gauge> {
    // If the receiver is gone, the supervisor is shutting down: drop the finding.
    Gauge::start(clock::now, move |found| drop(told.blocking_send(found_event(found))))
}

/// Called after each try to remove the directory of an ended job: complains of a failure until it succeeds.
fn removed(complaints: Complaints) -> Removed {
    const LEFT: &str = "failed to remove what jobs left";
    Arc::new(move |dir, result| {
        let (dir, now) = (dir.display().to_string(), clock::now());
        match result {
            Ok(()) => complaints.well_for(LEFT, &dir, now),
            Err(error) => complaints.stands_for(LEFT, &dir, &format!("{dir}: {error}"), now),
        }
    })
}

/// Continues where the last supervisor ended.
async fn take_over(
    effects: &mut Effects,
    left: Vec<KeeperMessage>,
    settings: &mut Settings,
) -> io::Result<()> {
    // The numbers go on: a late report about a life of the last supervisor must not name one of ours.
    settings.first_generation = effects.hello.generation + 1;
    settings.unproven = recover(effects, left).await?;
    Ok(())
}

/// The broker is not there. The keeper restarts such a supervisor until it is; a burst ends instead.
fn end_of_burst(effects: &mut Effects, burst: bool, error: io::Error) -> io::Result<Ended> {
    if !burst {
        return Err(error);
    }
    effects.last.gave_up(GaveUp::NoBroker(error.to_string()));
    let shutdown = effects.last.shutdown();
    effects.link.order(&shutdown);
    effects.link.flush()?;
    Ok(Ended::Stopped)
}

/// Counts the queues at once, so that there is a count to show if the broker hangs later; then each time the loop asks, or
/// something begins to fail for good or works again.
async fn count_queues(desk: Arc<ApiService>, asked: Arc<Notify>) {
    desk.counts(HANGS).await;
    let mut failed = desk.failing.both();
    loop {
        tokio::select! {
            () = asked.notified() => {}
            () = desk.failing.turn(&failed) => {}
        }
        failed = desk.failing.both();
        let counted = desk.counts(HANGS).await;
        if desk.requests.send(Request::Counted(counted)).await.is_err() {
            return;
        }
    }
}

fn say_hello(hello: Hello, pools: &[PoolSettings], broker: &str, first_step: Option<String>) {
    orders::started(pools, broker).iter().for_each(Line::write);
    let Hello { pid, cgroup, bounds, restarts, .. } = hello;
    if let Some(ended) = hello.last_end() {
        warn!(%ended, "the previous supervisor ended, and the keeper ended all that it ran");
    }
    info!(keeper = pid, cgroup, bounds, restarts, "supervisor is up");
    // A newcomer reads the log of the first start, not that of a restart.
    if let Some(first_step) = first_step.filter(|_| restarts == 0) {
        info!("put a job: {first_step}");
    }
}

/// Where events are published: those of jobs by the broker, those of workers here.
fn event_bus(broker: &Arc<Broker>) -> EventBus {
    let room = EventBus::default();
    broker.publish(room.clone());
    room
}

/// Starts the API on the socket and, if configured, on ports. Also starts the tasks that count the queues and look after
/// the socket.
fn open_doors(
    (socket, members): (UnixListener, Option<api::Members>),
    (path, files): (PathBuf, RunFiles),
    ports: Ports,
    desk: Arc<ApiService>,
    effects: &Effects,
) -> io::Result<()> {
    tokio::spawn(count_queues(desk.clone(), effects.record.watch.counts()));
    let (router, of_tasks) = (api::router(desk.clone()), api::tasks_router(desk.clone()));
    for (port, router) in [(ports.all, router), (ports.tasks, of_tasks)] {
        let Some((listener, programs, gate)) = port else { continue };
        // tokio does not do this, and a listener that blocks would stop its thread.
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        info!(address = %listener.local_addr()?, "the API listens");
        let router = api::behind(gate, router);
        tokio::spawn(api::serve(
            api::Port { listener, programs },
            router,
            api::Limits::default(),
            note_accepting(&desk),
        ));
    }
    open_socket(socket, members, &desk)?;
    let again = move |socket| open_socket(socket, members, &desk);
    let (complaints, pinged) = (effects.failing.others.clone(), effects.failing.pinged.clone());
    let state_lock = effects.failing.state_dir().join("lock");
    let lookout = Lookout { socket: path, state_lock, files, complaints, pinged };
    tokio::spawn(lookout.look(again));
    Ok(())
}

/// Has the health say so while clients cannot be let in, as when there are no descriptors left.
fn note_accepting(desk: &ApiService) -> impl Fn(Result<(), &io::Error>) + use<> {
    const ACCEPTING: &str = "failed to accept a connection";
    let complaints = desk.failing.others.clone();
    move |accepted| match accepted {
        Ok(()) => complaints.well(ACCEPTING, clock::now()),
        Err(error) => complaints.wrong(ACCEPTING, error, clock::now()),
    }
}

/// Serves the API on its socket. One that was removed goes on for the clients that it has.
fn open_socket(
    socket: UnixListener,
    members: Option<api::Members>,
    desk: &Arc<ApiService>,
) -> io::Result<()> {
    let router = api::router(desk.clone());
    socket.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(socket)?;
    match members {
        None => tokio::spawn(api::serve(listener, router, api::Limits::default(), note_accepting(desk))),
        Some(members) => {
            let socket = api::SharedSocket { listener, members };
            tokio::spawn(api::serve(socket, router, api::Limits::default(), note_accepting(desk)))
        }
    };
    Ok(())
}

/// The link, what the keeper says of itself, and the lives that an earlier supervisor has left.
type Greeting = (Link, (Hello, usage::Known), Vec<KeeperMessage>);

/// Sets up the link to the keeper and reads its first reports: the hello, and the lives left by an earlier supervisor.
/// None if the keeper is gone already.
async fn greet(keeper: OwnedFd) -> io::Result<Option<Greeting>> {
    let mut link = Link::new(keeper)?;
    let Some((report, stat)) = link.recv().await? else { return Ok(None) };
    let Report::Hello(hello) = report else {
        return Err(io::Error::other(format!("the keeper's first word was {report:?}, not Hello")));
    };
    let mut left = Vec::new();
    for _ in 0..hello.left + hello.stuck {
        let Some(message) = link.recv().await? else { return Ok(None) };
        left.push(message);
    }
    // Any order counts as a sign of life: the keeper takes a supervisor that ends without one for one that refused to
    // start.
    link.order(&Order::Notify("STATUS=starting".into()));
    link.flush()?;
    let keeper = usage::Known::new(hello.pid, stat.into_iter().next());
    Ok(Some((link, (hello, keeper), left)))
}

/// Passes on the broker's own notifications as events.
async fn listen(broker: Arc<Broker>, events: Sender<Event>) {
    loop {
        let event = match broker.next_notice().await {
            Notice::Wake(queues) => Event::Woken(queues),
            Notice::Revoked { job, fence, why } => Event::Revoked { job, fence, why },
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}
