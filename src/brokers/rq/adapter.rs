//! RQ as a kind of broker.

use std::sync::Arc;

use async_trait::async_trait;

use super::settings;
use super::source::Rq;
use broker::{Adapter, Address, Broker, Card, Error, Opening, Place};
use model::NewJob;
use model::verb::Ability;

/// The card of RQ as a broker.
static CARD: Card = Card {
    name: "rq",
    shared: true,
    batch: 1000,
    longest_delay: None,
    data_max: NewJob::DATA_MAX,
    cannot: &[
        (Ability::Depend, "put the second job by RQ's client, with depends_on"),
        (Ability::Prioritize, "give each priority a queue of its own, and the pool an order of queues"),
        (Ability::SetData, "RQ's jobs keep the arguments they were put with; use the job's meta"),
        (Ability::Track, "RQ has no such mark; use the job's meta"),
        (Ability::Pause, "`rq suspend` suspends all queues; `taskvisor pause POOL` a pool"),
        (Ability::Recur, "use `rq cron`, or the job's Repeat"),
        (Ability::Statistics, "RQ keeps none by day; `taskvisor status` and the metrics count"),
        (Ability::Forget, "RQ's client does: `queue.delete()`"),
        (Ability::Options, "RQ keeps none"),
        (Ability::Fleet, "`rq info` shows the workers of all hosts"),
        (Ability::Expire, "let the function look at the time, or put it by RQ and cancel it"),
        (Ability::AllEvents, "the supervisor tells what happens on its host"),
    ],
};

/// RQ's jobs in a Redis or Valkey: `rq+redis://HOST`.
pub struct RqOnRedis;

#[async_trait]
impl Adapter for RqOnRedis {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["rq+redis", "rq+rediss", "rq+unix", "rq+redis+sentinel", "rq+rediss+sentinel"]
    }

    fn forms(&self) -> &'static str {
        "rq+redis://HOST:PORT/DB (RQ's jobs; rq+rediss://, rq+unix://, rq+redis+sentinel://)"
    }

    fn fault(&self, url: &str) -> Option<&'static str> {
        redis_link::fault(url)
    }

    fn place(&self, _url: &str) -> Place {
        Place::Server
    }

    fn shown(&self, url: &str) -> String {
        settings::shown(url)
    }

    fn identity(&self, shown: &str) -> String {
        settings::identity(shown)
    }

    fn open(&self, at: &Address, _how: &Opening) -> Result<Broker, Error> {
        let rq = Arc::new(Rq::open(at)?);
        Ok(Broker::new(&CARD, rq.clone())
            .with_recovery(rq.clone())
            .with_admin(rq.clone())
            .with_store(rq.clone())
            .with_peers(rq))
    }

    fn look(&self, at: &Address) -> Result<(), Error> {
        Rq::open(at).map(drop)
    }

    async fn concern(&self, at: &Address) -> Result<Option<String>, Error> {
        Rq::open(at)?.shared.link.unsafe_for_jobs().await
    }
}
