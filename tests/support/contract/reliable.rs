//! The reliable queue as a broker of the contract.

use broker::{Broker, Opening};

use crate::support::{Clock, Elsewhere, RedisServer};

struct Queue {
    server: RedisServer,
    directory: tempfile::TempDir,
}

pub fn start() -> Box<dyn Elsewhere> {
    Box::new(Queue { server: RedisServer::start(), directory: tempfile::tempdir().expect("a directory") })
}

impl Elsewhere for Queue {
    fn open(&self, _clock: &Clock) -> Broker {
        let url = format!("reliable+{}?queue=q&exec=yes", self.server.url());
        let state_dir = self.directory.path().to_owned();
        let how = Opening { serves: true, place: "here".into(), state_dir, ..Opening::default() };
        brokers::address(&url).expect("a URL").open(&how).expect("a broker")
    }

    fn afresh(&self) -> Box<dyn Elsewhere> {
        start()
    }
}
