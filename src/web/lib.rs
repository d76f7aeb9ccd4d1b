//! The web page: a process of its own, a client of the API. It draws pages on the server and changes nothing by itself.

#![warn(unreachable_pub)]

mod acts;
mod ansi;
mod answer;
mod app;
mod assets;
mod bulk;
mod chart;
mod cookie;
mod edit;
mod enter;
mod form;
mod gate;
mod hide;
mod json;
mod layout;
mod live;
mod options;
mod order;
mod packed;
mod pages;
mod router;
mod say;
mod search;
mod series;
mod session;
mod shape;
mod source;
mod stream;
mod text;
mod things;
mod trouble;
mod words;
mod works;

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;

pub use json::Redact;
pub use order::acts;
pub use session::{Role, Token};
pub use source::Source;
pub use trouble::Trouble;
pub use words::{Line, Words};

/// What the page is started with.
pub struct Settings {
    /// The port, bound: whoever binds it may need a right that the page gives up.
    pub listener: std::net::TcpListener,
    /// The path below which the page is: empty, or `/jobs`.
    pub path: String,
    /// Names by which browsers may call it, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The tokens that open it; none = it opens by a key once.
    pub tokens: Vec<Token>,
    /// Whether nobody may change anything.
    pub read_only: bool,
    /// What of the data is hidden.
    pub redact: Redact,
    /// The options of a command that lead to the same jobs, each with a blank behind it.
    pub options: String,
}

/// The page at its port.
pub struct Web {
    listener: TcpListener,
    app: Arc<app::App>,
    /// The address to open.
    pub url: String,
}

impl Web {
    /// The page that will serve at this port.
    pub fn new(settings: Settings, source: Source, words: Box<dyn Words>) -> io::Result<Web> {
        let listener = {
            // tokio takes over a socket of the standard library only in this mode.
            settings.listener.set_nonblocking(true)?;
            TcpListener::from_std(settings.listener)?
        };
        let address = listener.local_addr()?;
        let sessions = session::Sessions::new(settings.read_only);
        let base = settings.path;
        let mut url = format!("http://{address}{base}/");
        // With tokens a printed key would be one more secret to keep.
        if settings.tokens.is_empty() {
            url += &format!("enter?key={}", sessions.make_key()?);
        }
        sessions.set_tokens(settings.tokens);
        let app = app::App {
            source,
            sessions,
            live: live::Live::default(),
            works: works::Works::default(),
            words,
            redact: settings.redact,
            options: settings.options,
            base,
            // A page without a script cannot know the zone of its reader.
            zone: jiff::tz::TimeZone::system(),
            follows: Arc::new(tokio::sync::Semaphore::new(app::FOLLOWS)),
            // Cookies do not know ports: two pages on one host keep apart by the name.
            cookie: format!("taskvisor-{}", address.port()),
            hosts: settings.hosts,
        };
        Ok(Web { listener, app: Arc::new(app), url })
    }

    /// Serves readers for ever.
    pub async fn serve(self) {
        // A session in a browser must not lead to commands on the host.
        let door = api::Port { listener: self.listener, programs: false };
        api::serve(door, router::router(self.app), api::Limits::default(), |_| ()).await;
    }

    /// Takes other tokens from now on, and ends all sessions.
    pub fn tokens(&self) -> impl Fn(Vec<Token>) + Send + 'static {
        let app = self.app.clone();
        move |tokens| app.sessions.set_tokens(tokens)
    }
}
