//! `stop`: gives the order, and waits for the end.

use std::convert::Infallible;
use std::time::Duration;

use super::stop_preview::preview;
use crate::cli::access::elsewhere::client;
use crate::cli::args::Stop as Args;
use crate::cli::term::screen::age;
use api::{Error, Lines};
use boot::{LivingKeeper, living_keeper, run_lock};
use config::Config;
use failure::{Failure, exit};
use model::{Interest, PublishedEvent, Stop, What};

/// Orders the stop and waits for the end.
pub(crate) async fn stop(config: &Config, args: &Args) -> Result<u8, Failure> {
    let how = match args {
        Args { kill: true, .. } => Stop::Kill,
        Args { now: true, .. } => Stop::Terminate,
        Args { .. } => Stop::Drain,
    };
    if args.dry_run {
        return preview(config, how).await;
    }
    let whole = async {
        let keeper = living_keeper(config);
        let last_words = order(config, how, keeper).await?;
        match end(config, how, keeper, last_words).await? {
            Left { alive: Some(alive), .. } => Err(left_alive(&alive)),
            Left { untold: 0, alive: None } => Ok(exit::OK),
            Left { untold, alive: None } => Err(unconfirmed(untold)),
        }
    };
    let whole = async {
        tokio::select! {
            done = whole => done,
            never = note_stopped_keeper(config) => match never {},
        }
    };
    match args.timeout {
        None => whole.await,
        Some(timeout) => tokio::time::timeout(timeout, whole).await.map_err(|_| {
            Failure::new(exit::TIMED_OUT, format!("the supervisor has not ended within {}", age(timeout)))
                .hint("it goes on ending; taskvisor stop --now or --kill goes a stage further")
        })?,
    }
}

/// Says once if the keeper is stopped (state T): until it goes on, nothing ends.
async fn note_stopped_keeper(config: &Config) -> Infallible {
    let mut is_noted = false;
    loop {
        tokio::time::sleep(SILENCE).await;
        let keeper = living_keeper(config).filter(|_| !is_noted);
        if let Some((keeper, how)) = keeper.and_then(|keeper| Some((keeper, keeper.how_to_continue()?))) {
            is_noted = true;
            eprintln!("note: {} is stopped, and ends nothing before it goes on", keeper.name());
            eprintln!("hint: {how}");
        }
    }
}

fn unconfirmed(untold: u64) -> Failure {
    let what = match untold {
        1 => "how 1 job ended".to_owned(),
        untold => format!("how {untold} jobs ended"),
    };
    Failure::new(exit::UNAVAILABLE, format!("the supervisor has ended, and its broker has not confirmed {what}"))
        .hint("its log names them and says why; what is not written all the same runs again when its lease ends, or at the next start")
}

/// What a supervisor leaves behind at its end.
#[derive(Default)]
struct Left {
    /// Number of verdicts that the broker has not confirmed.
    untold: u64,
    /// The processes that do not die, in words.
    alive: Option<String>,
}

fn left_alive(alive: &str) -> Failure {
    let what = format!("the supervisor has ended, and some of what it ran does not die: {alive}");
    let hint = "a start on this state directory is refused until that is dead; on a store that others use too, its job \
                runs there when its lease ends";
    Failure::new(exit::UNAVAILABLE, what).hint(hint)
}

/// The events of a supervisor until its end.
type Words = Lines<PublishedEvent>;

/// Gives the order, and subscribes to events. A supervisor that is just starting gets the order as soon as it listens.
/// None if it is gone. The order is for the supervisor of this keeper, if it is known, and not for the next one.
async fn order(config: &Config, how: Stop, of: Option<LivingKeeper>) -> Result<Option<Words>, Failure> {
    let (client, mut lived) = (client(config)?, false);
    let (begun, mut is_told) = (clock::now(), false);
    let its_end = Interest { kinds: vec![What::Ended], ..Interest::default() };
    loop {
        if of.is_some_and(LivingKeeper::has_died) {
            return Ok(None);
        }
        // Both at once: with some brokers the subscription takes a while.
        let (words, ordered) = tokio::join!(client.events(&its_end), client.stop(how));
        lived |= ordered.is_ok();
        match ordered.and(words) {
            Ok(words) => return Ok(Some(words)),
            // It may be gone before its answer, for good, or be started again.
            Err(Error::Lost(..) | Error::NotRunning(_)) if let Some(living) = living_keeper(config) => {
                let keeper = of.unwrap_or(living);
                lived = true;
                if !is_told && clock::now().since(begun) > SILENCE && keeper.end() {
                    is_told = true;
                    eprintln!("note: no supervisor listens; {} gets SIGTERM instead", keeper.name());
                }
                tokio::time::sleep(BETWEEN).await;
            }
            Err(Error::Lost(..)) => return Ok(None),
            // It was there for an earlier try, so it has ended since: that was the order.
            Err(Error::NotRunning(_)) if lived => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until everything has ended, and gives what is left then. If the supervisor dies while it stops, the order is
/// lost, and the next one must get it again.
async fn end(
    config: &Config,
    how: Stop,
    of: Option<LivingKeeper>,
    mut words: Option<Words>,
) -> Result<Left, Failure> {
    let gone = gone(config, of);
    tokio::pin!(gone);
    while let Some(said) = words {
        let last = last(said);
        tokio::pin!(last);
        tokio::select! {
            // If it has ended, all its events are here.
            ended = &mut gone => return ended.and(Ok(last.await.unwrap_or_default())),
            left = &mut last => if let Some(left) = left {
                return gone.await.and(Ok(left));
            }
        }
        words = tokio::select! {
            ended = &mut gone => return ended.and(Ok(Left::default())),
            words = order_again(config, how, of) => words,
        };
    }
    gone.await.and(Ok(Left::default()))
}

/// Errors here may pass: the first order has begun the stop.
async fn order_again(config: &Config, how: Stop, of: Option<LivingKeeper>) -> Option<Words> {
    loop {
        tokio::time::sleep(REMINDER).await;
        if let Ok(words) = order(config, how, of).await {
            return words;
        }
    }
}

/// Pause between repeated orders: a second order changes nothing.
const REMINDER: Duration = Duration::from_secs(2);

/// What its last event says is left; None if there was no such event.
async fn last(mut words: Words) -> Option<Left> {
    loop {
        let some = words.next().await.ok().filter(|some| !some.is_empty())?;
        if let Some(end) = some.iter().find(|news| news.what == What::Ended) {
            return Some(Left { untold: end.count.unwrap_or(0), alive: end.why.clone() });
        }
    }
}

/// How long a supervisor may be silent before its keeper is looked at.
const SILENCE: Duration = Duration::from_secs(1);

/// Pause between two tries to reach it, and two looks whether it is gone: a keeper in another PID namespace gives no sign
/// of its end but its lock, and to wait for the lock would be to wait for the next one that has it.
const BETWEEN: Duration = Duration::from_millis(20);

/// Waits until the keeper is gone, which holds the lock of the run directory to its end; a `start` that waits for the lock
/// may be the first to have it then.
async fn gone(config: &Config, of: Option<LivingKeeper>) -> Result<(), Failure> {
    let is_seen = of.is_some_and(LivingKeeper::is_seen);
    if config.remote.is_some() {
        return gone_elsewhere(config).await;
    }
    while !of.is_some_and(LivingKeeper::has_died) {
        match (living_keeper(config), run_lock(config).exists()) {
            (None, true) => break,
            // Its directory was swept away.
            (None, false) if !is_seen => return gone_elsewhere(config).await,
            (None, false) | (Some(_), _) => tokio::time::sleep(BETWEEN).await,
        }
    }
    Ok(())
}

/// For a supervisor whose lock cannot be seen from here: it has ended when nothing listens any more.
async fn gone_elsewhere(config: &Config) -> Result<(), Failure> {
    let client = client(config)?;
    loop {
        match client.probe().await {
            Err(Error::NotRunning(_)) => return Ok(()),
            Ok(()) => tokio::time::sleep(BETWEEN).await,
            Err(error) => return Err(error.into()),
        }
    }
}
