//! A Redis with the commands of qless as a kind of broker.

use async_trait::async_trait;

use super::broker::{CARD, Options, Redis};
use crate::broker::registry::without_secrets;
use crate::broker::{Adapter, Address, Broker, Card, Error, Opening, Place};

/// A Redis or Valkey that several hosts share.
pub struct Qless;

#[async_trait]
impl Adapter for Qless {
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
        let has_place = url.split_once("://").is_some_and(|(_, place)| !place.is_empty());
        (!has_place).then_some("needs a host, or a path, after its //")
    }

    fn place(&self, _url: &str) -> Place {
        Place::Server
    }

    fn shown(&self, url: &str) -> String {
        without_secrets(url)
    }

    fn identity(&self, shown: &str) -> String {
        identity(shown)
    }

    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error> {
        let options = Options { place: how.place.clone(), ..Options::default() };
        Ok(Redis::open(at.reveal(), &at.to_string(), options)?.into())
    }

    async fn concern(&self, at: &Address) -> Result<Option<String>, Error> {
        let redis = Redis::open(at.reveal(), &at.to_string(), Options::default())?;
        Ok(redis.keeps_nothing().await?.map(str::to_owned))
    }
}

/// What tells one Redis from another: its way, its hosts with their ports, and the number of its database.
fn identity(shown: &str) -> String {
    let Some((scheme, rest)) = shown.split_once("://") else { return shown.to_owned() };
    let scheme = scheme.replace("valkey", "redis");
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme.ends_with("unix") {
        return format!("unix://{rest} {}", query.trim_start_matches("db=").parse().unwrap_or(0));
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_asked = scheme.ends_with("sentinel");
    let (master, number) = if is_asked { path.split_once('/').unwrap_or((path, "")) } else { ("", path) };
    let port = if is_asked { "26379" } else { "6379" };
    let whole = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && !port.ends_with(']') => host.to_ascii_lowercase(),
        _ => format!("{}:{port}", host.trim_end_matches(':').to_ascii_lowercase()),
    };
    let hosts: Vec<String> = hosts.split(',').map(whole).collect();
    format!("{scheme}://{} {master} {}", hosts.join(","), number.trim_matches('/').parse().unwrap_or(0))
}
