//! `web`: serves the page for browsers.

use std::net::TcpListener;
use std::time::Duration;

use ::web::{Line, Redact, Role, Settings, Source, Token, Words};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::access::Access;
use super::access::elsewhere::client;
use super::access::spooled::puts_only;
use super::args::Web;
use super::args::typed::to_the_same_jobs;
use super::record::needs::Helps;
use super::record::timeline;
use super::term::format::quoted;
use super::term::screen::{Look, print};
use super::why::because::{Heard, of_job};
use super::why::because_pool::{of_pool, of_slot};
use api::Client;
use config::{Config, Surroundings, token_in};
use failure::{Failure, exit};
use model::{JobId, JobRecord, Why};

/// Timeout for asking the supervisor which fields to hide. The page itself waits as long for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves the page until a signal ends it.
pub(super) async fn web(config: &Config, args: Web) -> Result<u8, Failure> {
    // First: the right to a port below 1024 is among those that are given up.
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| Failure::from(error).of(format!("failed to listen on {}", args.listen)))?;
    if let Some(supervisor) = args.beside
        && !keeper::live_beside(supervisor)?
    {
        return Ok(exit::OK);
    }
    let (source, of_file) = (source(config, args.beside.is_some()).await?, config.web.clone());
    let login = args.login_token_file.or(of_file.login_token_file);
    let view = args.view_token_file.or(of_file.view_token_file);
    let files = [(login, "--login-token-file", Role::All), (view, "--view-token-file", Role::View)];
    let tokens = move || -> Result<Vec<Token>, Failure> {
        let around = Surroundings::of_process();
        let named = files.iter().filter_map(|(file, flag, role)| Some((file.clone()?, *flag, *role)));
        named.map(|(file, flag, role)| Ok(Token { role, text: token_in(file, flag, &around)?.0 })).collect()
    };
    let there = match &source {
        Source::Api(client, _) if args.beside.is_none() => hidden_there(client).await,
        Source::Api(..) | Source::Store(_) => Redact::default(),
    };
    let settings = Settings {
        listener,
        path: if args.path.is_empty() { of_file.path } else { args.path },
        hosts: [args.hosts, of_file.hosts].concat(),
        tokens: tokens()?,
        read_only: args.read_only || of_file.read_only,
        redact: Redact {
            names: [args.redact, of_file.redact, there.names].concat(),
            all: args.hide_data || of_file.hide_data || there.all,
        },
        options: match args.beside {
            None => to_the_same_jobs(std::env::args_os(), config),
            // The supervisor has started it, and finds its own directory unless that is an unusual one.
            Some(_) if config.run_dir == Surroundings::of_process().run_dir() => String::new(),
            Some(_) => format!("--run-dir {} ", quoted(&config.run_dir.display().to_string())),
        },
    };
    let page = ::web::Web::new(settings, source, Box::new(Ours(Look::of_stdout(false))))?;
    // The handlers stand before the address is printed: an earlier signal would end the page.
    let mut hangup = signal(SignalKind::hangup())?;
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    print(&format!("{}\n", page.url))?;
    let renew = page.tokens();
    let serving = page.serve();
    tokio::pin!(serving);
    loop {
        tokio::select! {
            () = &mut serving => return Ok(exit::OK),
            _ = end.recv() => return Ok(exit::OK),
            _ = interrupt.recv() => return Ok(exit::OK),
            _ = hangup.recv() => match tokens() {
                // All sessions would end, and the printed address is spent: nobody could come in again.
                Ok(tokens) if tokens.is_empty() => return Ok(exit::OK),
                Ok(tokens) => renew(tokens),
                // Those in force stay: a half-written file locks nobody out.
                Err(failure) => drop(failure.print()),
            },
        }
    }
}

/// The way to the jobs. A page beside a supervisor has none but that one, which may be about to listen.
async fn source(config: &Config, is_beside: bool) -> Result<Source, Failure> {
    if is_beside {
        return Ok(Source::of(client(config)?));
    }
    match Access::open(config).await? {
        Access::Api(client, _) => Ok(Source::of(client)),
        Access::Store(store) => Ok(Source::Store(store)),
        Access::Spool(spool) => Err(puts_only(&spool)),
    }
}

/// What the settings of the supervisor hide. Its own page hides it, and so does one that was started without its file.
async fn hidden_there(client: &Client) -> Redact {
    let asked = timeout(PATIENCE, client.config()).await;
    let why = match asked {
        Ok(Ok(shown)) => {
            let value = |name: &str| shown.settings.get(name).map(|shown| shown.value.clone());
            let read = |name: &str| value(name).and_then(|value| serde_json::from_value(value).ok());
            let all = value("web.hide_data") == Some(true.into());
            return Redact { names: read("web.redact").unwrap_or_default(), all };
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    eprintln!("note: what the settings of the supervisor hide is shown here: they cannot be read: {why}");
    Redact::default()
}

/// The sentences of the commands, for the page.
struct Ours(Look);

impl Words for Ours {
    fn timeline(&self, job: &JobRecord) -> Vec<Line> {
        let events = timeline::in_order(job, &self.0);
        events.into_iter().map(|event| Line { at: event.at, what: event.what, below: event.below }).collect()
    }

    fn why_job(&self, id: &JobId, why: &Why, has_supervisor: bool) -> Vec<String> {
        let heard = if has_supervisor { Heard::Supervisor } else { Heard::Unseen };
        of_job(id, why, &heard, Helps::of(None), clock::wall())
    }

    fn why_pool(&self, why: &Why) -> Vec<String> {
        why.pools.iter().flat_map(|(pool, _)| of_pool(pool, why, &self.0)).collect()
    }

    fn why_slot(&self, slot: &str, why: &Why) -> Vec<String> {
        of_slot(slot, why)
    }
}
