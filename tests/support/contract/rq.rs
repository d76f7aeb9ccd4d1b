//! RQ's queues as a broker of the contract.

use broker::{Broker, Opening};
use model::JobState;

use crate::support::{Clock, Elsewhere, RedisServer};

struct Queues(RedisServer);

pub fn start() -> Box<dyn Elsewhere> {
    Box::new(Queues(RedisServer::start()))
}

impl Elsewhere for Queues {
    fn open(&self, _clock: &Clock) -> Broker {
        let how = Opening {
            serves: true,
            place: "here".into(),
            state_dir: std::env::temp_dir(),
            ..Opening::default()
        };
        brokers::address(&format!("rq+{}", self.0.url())).expect("a URL").open(&how).expect("a broker")
    }

    /// RQ has no state for canceled running jobs: they count as failed.
    fn stopped(&self) -> JobState {
        JobState::Failed
    }

    fn afresh(&self) -> Box<dyn Elsewhere> {
        start()
    }
}
