//! The kinds of brokers, each a crate in a folder beside this file, and the list of those that are built in. Settings,
//! command line, `check` and `doctor` use this list and name no kind.
//!
//! The embedded store is always there; a feature of the program brings each other one:
//!
//! ```text
//!  brokers                  the list of kinds
//!  ├─ qless      `redis`    ─┐
//!  ├─ rq         `rq`       ─┼─► redis_link   the connection to a Redis
//!  ├─ reliable   `reliable` ─┘
//!  │             reliable and sqs ─► ledger   history for a broker that keeps none ─► sqlite
//!  ├─ sqs        `sqs`
//!  └─ sqlite     always
//!  common        what kinds share, above the contract (the room `broker`)
//! ```

#![warn(unreachable_pub)]

mod kinds;
mod left_out;

use std::path::PathBuf;

pub use kinds::ADAPTERS;

use broker::{Address, Wrong};

/// Reads the URL of a broker, such as `sqlite:PATH`, `memory:` or `redis://HOST`. Errors do not repeat it: it may hold a
/// password.
pub fn address(url: &str) -> Result<Address, Wrong> {
    Address::read(url, ADAPTERS).map_err(|wrong| left_out::explained(url, wrong))
}

/// The embedded store in this file.
pub fn in_file(path: PathBuf) -> Address {
    Address::of_file(&sqlite::InFile, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the program knows this kind of URL.
    fn is_built(url: &str) -> bool {
        ADAPTERS.iter().flat_map(|kind| kind.schemes()).any(|scheme| url.split(':').next() == Some(scheme))
    }

    #[track_caller]
    fn is_same(one: &str, other: &str) -> bool {
        let shown = address(other).unwrap().to_string();
        address(one).unwrap().is_at(&shown)
    }

    #[test]
    fn equivalent_urls_are_the_same_broker() {
        for (one, other) in [
            ("redis://h", "redis://H:6379/0"),
            ("redis://me:s3cr3t@h:6379", "redis://h/"),
            ("valkey://h/3", "redis://h:6379/3"),
            ("redis://[::1]", "redis://[::1]:6379/0"),
            ("unix:///run/r.sock?db=2", "redis+unix:///run/r.sock?db=2&pass=s3cr3t"),
            ("redis+sentinel://a,b:26379/main", "redis+sentinel://a:26379,b/main/0"),
            ("sqlite:/proc/self/../version", "sqlite:/proc/version"),
            ("memory:", "memory:"),
        ]
        .into_iter()
        .filter(|(one, _)| is_built(one))
        {
            assert!(is_same(one, other) && is_same(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn different_urls_are_different_brokers() {
        for (one, other) in [
            ("redis://h", "redis://h/1"),
            ("redis://h", "redis://h:6380"),
            ("redis://h", "rediss://h"),
            ("redis://h", "redis://i"),
            ("unix:///run/r.sock?db=2", "unix:///run/r.sock"),
            ("redis+sentinel://a/main", "redis+sentinel://a/other"),
            ("sqlite:/proc/version", "sqlite:/proc/cpuinfo"),
            ("memory:", "redis://h"),
        ]
        .into_iter()
        .filter(|(one, other)| is_built(one) && is_built(other))
        {
            assert!(!is_same(one, other) && !is_same(other, one), "{one} and {other}");
        }
    }
}
