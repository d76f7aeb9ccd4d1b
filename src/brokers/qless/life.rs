//! How a job in Redis names the life that runs it: by the name that people read, and by the id of the keeper.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use model::{WorkerId, WorkerName};

/// The value of a job's field `life`. Readers of [`WorkerName`] ignore the id.
#[derive(Serialize)]
pub(super) struct Life {
    #[serde(flatten)]
    pub(super) name: WorkerName,
    id: u64,
}

impl Life {
    /// The life of a slot of the pool.
    pub(super) fn new(pool: Arc<str>, worker: WorkerId) -> Life {
        Life { name: WorkerName::new(pool, worker), id: worker.to_u64() }
    }
}

/// The forms that are read: one with the id, or what earlier versions wrote.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Named { id: u64 },
    Numbered(WorkerId),
}

/// The id of the life that the text names.
pub(super) fn id(text: &str) -> Option<WorkerId> {
    Some(match serde_json::from_str(text).ok()? {
        Written::Named { id } => WorkerId::from_u64(id),
        Written::Numbered(worker) => worker,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SlotId;

    #[test]
    fn worker_name_and_id_are_read_from_new_and_old_records() {
        let worker = WorkerId { slot: SlotId { pool: 3, index: 1 }, generation: 7 };
        let text = serde_json::to_string(&Life::new("mail".into(), worker)).unwrap();
        assert_eq!(id(&text), Some(worker));
        assert_eq!(serde_json::from_str::<WorkerName>(&text).unwrap().to_string(), "mail.1#7");
        assert_eq!(id(&serde_json::to_string(&worker).unwrap()), Some(worker));
        assert_eq!(id("{}"), None);
    }
}
