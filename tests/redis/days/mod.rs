//! Faults of a server or of the network. The supervisor reports what is wrong and recovers when it is over; no job is
//! lost or runs twice at once.

mod elsewhere;
mod failover;
mod network;
mod odd;
mod owed;
mod refusals;
mod secure;
mod texts;

use crate::proxy::Proxy;
use crate::supervisors::Scene;
use crate::support::RedisServer;

/// A server, and a proxy to it that can break the connection.
fn behind_a_proxy() -> (Scene, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port);
    (Scene::on(server), proxy)
}

/// The number of script calls so far.
fn calls(scene: &Scene) -> u64 {
    let text: String = scene.other().raw("INFO commandstats");
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or("=0,").to_owned();
    line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
}
