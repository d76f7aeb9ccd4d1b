//! Outages that are longer than a lease, over every broker, with a job in each state: one table, one rule. What ended runs
//! no second time, nothing runs twice at a time, a retry and a dependent run once, a cancel holds, `when_cut_off:
//! carry_on` is honoured, and no job pays for a death that never was.
#![allow(clippy::unwrap_used)]

#[path = "../support/sqs/mod.rs"]
mod fake;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/sandbox.rs"]
mod sandbox;

mod disk;
mod forgotten;
mod late;
mod outage;
mod pauses;
mod poison;
mod refused;
mod rule;
mod servers;
mod spoiled;
mod states;

use outage::Outage;
use servers::Broker;

/// A test for each row: the broker, and the outage that it has to outlast.
macro_rules! table {
    ($($broker:ident { $($name:ident: $outage:ident,)* })*) => {
        $(mod $broker {
            $(#[test]
            fn $name() {
                super::rule::holds(super::Broker::$broker, super::Outage::$outage);
            })*
        })*
    };
}

table! {
    embedded {
        store_is_locked: StoreLocked,
        supervisor_is_stopped: SupervisorStopped,
        host_stands_still: HostStill,
    }
    qless {
        server_stands_still: ServerStill,
        server_is_killed_and_comes_back: ServerKilled,
        server_refuses_writes: ReadOnly,
        server_is_full: Full,
        network_is_lost: NetworkLost,
        supervisor_is_stopped: SupervisorStopped,
        host_stands_still: HostStill,
        host_and_server_stand_still: AllStill,
    }
    rq {
        server_stands_still: ServerStill,
        server_is_killed_and_comes_back: ServerKilled,
        server_refuses_writes: ReadOnly,
        server_is_full: Full,
        network_is_lost: NetworkLost,
        supervisor_is_stopped: SupervisorStopped,
        host_stands_still: HostStill,
        host_and_server_stand_still: AllStill,
    }
    reliable {
        server_stands_still: ServerStill,
        server_is_killed_and_comes_back: ServerKilled,
        server_refuses_writes: ReadOnly,
        server_is_full: Full,
        network_is_lost: NetworkLost,
        supervisor_is_stopped: SupervisorStopped,
        host_stands_still: HostStill,
        host_and_server_stand_still: AllStill,
    }
    sqs {
        service_does_not_answer: Unanswered,
        service_hides_nothing_any_more: Unhidden,
        service_closes_connections: Gone,
        service_denies_all: Denied,
        supervisor_is_stopped: SupervisorStopped,
        host_stands_still: HostStill,
    }
}
