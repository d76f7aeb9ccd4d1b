//! Which queues are served: by the pools here and, with a shared broker, by those of other supervisors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broker::Broker;
use model::verb::ShowFleet;
use model::{QueueCounts, QueueName};

/// How long to wait for the presence of the other supervisors. A broker that takes longer hangs.
const PATIENCE: Duration = Duration::from_millis(500);

/// Marks the queues from which no pool takes jobs. `own` are the queues of the pools here; None = not known, marks
/// none.
pub(super) async fn mark(
    broker: &Broker,
    queues: &mut BTreeMap<QueueName, QueueCounts>,
    own: Option<&BTreeSet<QueueName>>,
) {
    let unserved = unserved(broker, queues.keys().cloned().collect(), own).await;
    for (name, counts) in queues {
        counts.unserved = unserved.contains(name);
    }
}

/// Those of `queues` from which no pool takes jobs, here or in another living supervisor. Empty if that cannot be
/// known: better no warning than a wrong one.
pub(super) async fn unserved(
    broker: &Broker,
    mut queues: BTreeSet<QueueName>,
    own: Option<&BTreeSet<QueueName>>,
) -> BTreeSet<QueueName> {
    let Some(own) = own else { return BTreeSet::new() };
    queues.retain(|queue| !own.contains(queue));
    if queues.is_empty() || !broker.card().shared {
        return queues;
    }
    let asked = broker.tell(ShowFleet { jobs: false }, "");
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(fleet)) => queues.retain(|queue| !fleet.supervisors.iter().any(|member| member.takes(queue))),
        Ok(Err(_)) | Err(_) => queues.clear(),
    }
    queues
}
