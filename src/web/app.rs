//! What all pages share.

use std::sync::Arc;

use jiff::tz::TimeZone;
use maud::Markup;
use model::Millis;
use tokio::sync::Semaphore;

use crate::json::Redact;
use crate::live::Live;
use crate::session::{Notice, Role, Sessions};
use crate::source::Source;
use crate::text;
use crate::words::Words;
use crate::works::Works;

/// Limit of the outputs that are followed at a time: the supervisor has places for few, and not for pages alone.
pub(crate) const FOLLOWS: usize = 8;

/// What all pages share.
pub(crate) struct App {
    /// Where the jobs are.
    pub source: Source,
    /// The readers that came in.
    pub sessions: Sessions,
    /// What happens, for the pages that are open.
    pub live: Live,
    /// Orders about many jobs that are being carried out.
    pub works: Works,
    /// The sentences of the commands.
    pub words: Box<dyn Words>,
    /// What of the data is hidden.
    pub redact: Redact,
    /// The options of a command that lead to the same jobs, each with a blank behind it: none, or `-b redis://host `.
    pub options: String,
    /// What stands before each path in links: empty, or for example `/jobs`.
    pub base: String,
    /// The zone of the times on the pages.
    pub zone: TimeZone,
    /// Places for those that follow an output.
    pub follows: Arc<Semaphore>,
    /// The name of the cookie.
    pub cookie: String,
    /// Names by which a browser may call, besides addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// One request of a reader who may come in.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    /// What the reader may do.
    pub role: Role,
    /// Key of the session.
    pub session: String,
    /// The path with the query, as the browser sees it.
    pub url: String,
    /// Whether only the changed part is asked for.
    pub is_fragment: bool,
    /// Who asks, for the history of jobs.
    pub by: String,
    /// What the last order has led to.
    pub notice: Option<Notice>,
}

impl Visit {
    /// Whether the reader may change something.
    pub(crate) fn may_change(&self) -> bool {
        self.role == Role::All
    }
}

/// The places in the head of each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The overview page.
    Overview,
    /// Lists of jobs, and one job.
    Jobs,
    /// Failures by group.
    Failures,
    /// Queues, and one of them.
    Queues,
    /// Batches, and one of them.
    Batches,
    /// Recurring jobs, and one of them.
    Recurring,
    /// Pools, slots and supervisors.
    Workers,
    /// What happened lately.
    Events,
    /// The settings in force.
    Config,
    /// What the machine lacks.
    Doctor,
    /// Any other page.
    Other,
}

impl Place {
    /// Whether its pages are drawn without the broker: they do not fail with it, and say otherwise that it is away.
    pub(crate) fn outlives_broker(self) -> bool {
        [Place::Workers, Place::Events, Place::Config, Place::Doctor].contains(&self)
    }

    /// Those with a link, in order.
    pub(crate) const LINKED: [(Place, &'static str, &'static str); 10] = [
        (Place::Overview, "/", "Overview"),
        (Place::Jobs, "/jobs", "Jobs"),
        (Place::Failures, "/failures", "Failures"),
        (Place::Queues, "/queues", "Queues"),
        (Place::Batches, "/batches", "Batches"),
        (Place::Recurring, "/recurring", "Recurring"),
        (Place::Workers, "/workers", "Workers"),
        (Place::Events, "/events", "Events"),
        (Place::Config, "/config", "Config"),
        (Place::Doctor, "/doctor", "Doctor"),
    ];
}

/// A page before it is put into its frame.
pub(crate) struct Page {
    /// The HTTP status.
    pub code: u16,
    /// Title of the page.
    pub title: String,
    /// Where it belongs.
    pub place: Place,
    /// Which events change it: words as of [`Live`], with blanks between them.
    pub topics: String,
    /// What it shows changes with time: it is asked for again after these seconds.
    pub every: Option<u32>,
    /// What it shows.
    pub main: Markup,
}

impl Page {
    /// A page that changes with these events.
    pub(crate) fn new(
        title: impl Into<String>,
        place: Place,
        topics: impl Into<String>,
        main: Markup,
    ) -> Page {
        Page { code: 200, title: title.into(), place, topics: topics.into(), every: None, main }
    }
}

impl App {
    /// A link to a place of ours.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A link to the page of one thing.
    pub(crate) fn of(&self, kind: &str, name: &str) -> String {
        format!("{}/{kind}/{}", self.base, text::segment(name))
    }

    /// A command as it is typed where this page was started: with the options that lead to the same jobs.
    pub(crate) fn typed(&self, command: &str) -> String {
        command.replacen("taskvisor ", &format!("taskvisor {}", self.options), 1)
    }

    /// The time of now.
    pub(crate) fn now(&self) -> Millis {
        clock::wall()
    }
}
