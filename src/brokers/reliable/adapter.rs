//! The reliable queue as a kind of broker.

use std::sync::Arc;

use async_trait::async_trait;

use super::settings::Settings;
use super::shared::NEEDS;
use super::source::Reliable;
use broker::{Adapter, Address, Broker, Card, Error, Opening};
use ledger::{Ledger, with_ledger};
use model::NewJob;
use model::verb::Ability;
use redis_link::Link;

/// The card of the reliable queue with its ledger.
static CARD: Card = Card {
    name: "reliable",
    shared: true,
    batch: 1000,
    longest_delay: None,
    data_max: NewJob::DATA_MAX - 4096,
    cannot: &[
        (
            Ability::ShowWaiting,
            "`redis-cli HGET values ID` shows it, `redis-cli LREM pending 1 ID` takes it out",
        ),
        (Ability::Position, "`redis-cli LPOS pending ID RANK -1` tells its place in the list"),
        (Ability::Retry, "put its id back, `redis-cli LPUSH pending ID`: its value is kept"),
        (Ability::RetryMany, "put their ids back, `redis-cli LPUSH pending ID…`: their values are kept"),
        (Ability::Depend, "put the second job from the first one"),
        (Ability::Prioritize, "give each priority a database of its own"),
        (Ability::SetData, "complete the job, and put another one"),
        (Ability::Pause, "pause the pools that take from it: `taskvisor pause POOL`"),
        (Ability::Recur, "put it from cron"),
        (Ability::Forget, "delete its keys in Redis: a database holds one queue"),
        (Ability::Options, "set them in the broker's URL and in the pools"),
        (Ability::Fleet, "ask each host for its `taskvisor status`"),
        (Ability::Expire, "let the job look at the time"),
        (Ability::AllEvents, "the supervisor tells what happens on its host"),
    ],
};

/// A Redis with the keys of the tutorial: `reliable+redis://HOST`.
pub struct ReliableQueue;

#[async_trait]
impl Adapter for ReliableQueue {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn schemes(&self) -> &'static [&'static str] {
        &[
            "reliable+redis",
            "reliable+rediss",
            "reliable+unix",
            "reliable+sentinel",
            "reliable+redis+sentinel",
            "reliable+rediss+sentinel",
        ]
    }

    fn forms(&self) -> &'static str {
        "reliable+redis://HOST:PORT/DB"
    }

    fn fault(&self, url: &str) -> Option<&'static str> {
        Settings::read(url).map_or_else(Some, |settings| redis_link::fault(&settings.redis))
    }

    fn identity(&self, shown: &str) -> String {
        let redis = Settings::read(shown).map_or(shown.into(), |read| redis_link::identity(&read.redis));
        format!("reliable {redis}")
    }

    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error> {
        let (link, settings) = reach(at)?;
        let ledger = Ledger::open(&how.state_dir, how.serves)?;
        Ok(with_ledger(&CARD, Arc::new(Reliable::new(link, settings, ledger, &how.place))))
    }

    async fn concern(&self, at: &Address) -> Result<Option<String>, Error> {
        reach(at)?.0.unsafe_for_jobs().await
    }
}

/// The Redis of a URL, and the queue in it. Sends no request yet.
fn reach(at: &Address) -> Result<(Link, Settings), Error> {
    let wrong = |fault| Error::Url(format!("the broker 'reliable+redis:' {fault}"));
    let settings = Settings::read(at.reveal()).map_err(wrong)?;
    Ok((Link::new(&settings.redis, &at.to_string(), &NEEDS, None, clock::now)?, settings))
}
