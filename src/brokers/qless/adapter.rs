//! The kind of broker for a Redis with the commands of qless.

use std::sync::Arc;

use async_trait::async_trait;

use super::broker::{Options, Qless};
use broker::{Adapter, Address, Broker, Card, Error, Opening};
use model::NewJob;

/// The card of this kind of broker.
static CARD: Card = Card {
    name: "redis",
    shared: true,
    batch: 1000,
    longest_delay: None,
    data_max: NewJob::DATA_MAX,
    cannot: &[],
};

impl From<Qless> for Broker {
    fn from(redis: Qless) -> Broker {
        let redis = Arc::new(redis);
        Broker::new(&CARD, redis.clone())
            .with_recovery(redis.clone())
            .with_admin(redis.clone())
            .with_store(redis.clone())
            .with_peers(redis)
    }
}

/// A Redis or Valkey that several hosts share.
pub struct QlessOnRedis;

#[async_trait]
impl Adapter for QlessOnRedis {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel"]
    }

    fn forms(&self) -> &'static str {
        "redis://HOST:PORT/DB, rediss://, unix://PATH, redis+sentinel://HOST:PORT/MASTER/DB"
    }

    fn fault(&self, url: &str) -> Option<&'static str> {
        redis_link::fault(url)
    }

    fn identity(&self, shown: &str) -> String {
        redis_link::identity(shown)
    }

    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error> {
        let options = Options { place: how.place.clone(), ..Options::default() };
        Ok(Qless::open(at.reveal(), &at.to_string(), options)?.into())
    }

    async fn concern(&self, at: &Address) -> Result<Option<String>, Error> {
        let redis = Qless::open(at.reveal(), &at.to_string(), Options::default())?;
        redis.unsafe_for_jobs().await
    }
}
