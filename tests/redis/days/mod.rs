//! Bad days: what a server, or what is between, may do to those who need it. The supervisor says what is wrong, goes on
//! when it is over, and no job is lost or runs twice at once.

mod elsewhere;
mod failover;
mod network;
mod odd;
mod refusals;
mod secure;
mod texts;

use crate::proxy::Proxy;
use crate::supervisors::Scene;
use crate::support::RedisServer;

/// A server, and a way to it that can be spoiled.
fn behind_a_proxy() -> (Scene, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port);
    (Scene::on(server), proxy)
}

/// How often the script was called until now.
fn calls(scene: &Scene) -> u64 {
    let text: String = scene.other().raw("INFO commandstats");
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or("=0,").to_owned();
    line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
}
