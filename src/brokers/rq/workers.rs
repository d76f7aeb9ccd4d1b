//! The workers of this supervisor as RQ sees them: one for each slot, because RQ's tools believe that a worker runs one
//! job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock};

use common::{host_name, lock};
use model::{Instance, PoolSign, QueueName};

/// The registered workers, by name.
pub(super) struct Workers {
    /// The name of the first worker, if one was configured.
    name: Option<String>,
    host: String,
    all: Mutex<BTreeMap<String, Known>>,
    base: OnceLock<String>,
    told: Mutex<BTreeSet<String>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub queues: Vec<QueueName>,
    pub is_signed: bool,
}

impl Workers {
    pub(super) fn new(name: Option<String>) -> Workers {
        Workers {
            name,
            host: host_name(),
            all: Mutex::default(),
            base: OnceLock::new(),
            told: Mutex::default(),
        }
    }

    /// The prefix of the names of all workers.
    pub(super) fn base(&self, instance: &Instance) -> &str {
        self.base.get_or_init(|| match &self.name {
            Some(name) => name.clone(),
            None => {
                let instance = instance.as_str();
                let from = instance.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
                format!("{}-{}", self.host, &instance[from..])
            }
        })
    }

    /// The name of a slot's worker. A configured name is that of the first slot.
    pub(super) fn name(&self, instance: &Instance, pool: &str, index: u16) -> String {
        let base = self.base(instance);
        match (&self.name, index) {
            (Some(_), 1) => base.to_owned(),
            (Some(_), _) => format!("{base}.{index}"),
            (None, _) => format!("{base}-{pool}.{index}"),
        }
    }

    /// Sets the workers to those of the pools; gives the names of those that are gone. A worker that was shut down
    /// stays so.
    pub(super) fn set(&self, instance: &Instance, pools: &[PoolSign]) -> Vec<String> {
        let mut now = BTreeMap::new();
        for pool in pools {
            for index in 1..=u16::try_from(pool.slots).unwrap_or(u16::MAX) {
                let known = Known { queues: pool.queues.clone(), is_signed: false };
                now.insert(self.name(instance, &pool.name, index), known);
            }
        }
        let mut all = lock(&self.all);
        for (name, known) in &mut now {
            // RQ lists a worker with its queues, so a worker with others registers again.
            let same = all.get(name).filter(|before| before.queues == known.queues);
            known.is_signed = same.is_some_and(|before| before.is_signed);
        }
        let gone = all.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
        *all = now;
        gone
    }

    /// Notes that these workers take jobs from these queues. Gives whether some must be registered first.
    pub(super) fn take(&self, names: &[String], queues: &[QueueName]) -> bool {
        let mut all = lock(&self.all);
        let mut signed = true;
        for name in names {
            let known = all
                .entry(name.clone())
                .or_insert_with(|| Known { queues: queues.to_vec(), is_signed: false });
            signed &= known.is_signed;
        }
        !signed
    }

    pub(super) fn names(&self) -> Vec<String> {
        lock(&self.all).keys().cloned().collect()
    }

    /// Shuts a worker down: it takes no more jobs. Gives whether all workers are shut down.
    pub(super) fn shut_down(&self, name: &str) -> bool {
        let all = lock(&self.all);
        let mut told = lock(&self.told);
        // Anybody can publish a command to a name that nobody has.
        if all.contains_key(name) {
            told.insert(name.to_owned());
        }
        !all.is_empty() && all.keys().all(|name| told.contains(name))
    }

    pub(super) fn is_shut_down(&self, name: &str) -> bool {
        lock(&self.told).contains(name)
    }

    /// Redis has lost the workers: they must be registered again.
    pub(super) fn forget_signs(&self) {
        lock(&self.all).values_mut().for_each(|known| known.is_signed = false);
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// All workers as they are known now.
    pub(super) fn known(&self) -> Vec<(String, Known)> {
        lock(&self.all).iter().map(|(name, known)| (name.clone(), known.clone())).collect()
    }

    /// Notes that these are registered, unless their queues have changed meanwhile.
    pub(super) fn signed(&self, signed: &[(String, Known)]) {
        let mut all = lock(&self.all);
        for (name, known) in signed {
            if let Some(worker) = all.get_mut(name).filter(|worker| worker.queues == known.queues) {
                worker.is_signed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, slots: usize) -> PoolSign {
        PoolSign { name: name.into(), queues: vec!["q".into()], slots, ..PoolSign::default() }
    }

    #[test]
    fn worker_name_comes_from_the_slot_or_the_name_setting() {
        let instance = Instance::from("0123456789ab");
        let own = Workers::new(None);
        assert_eq!(own.name(&instance, "mail", 2), format!("{}-456789ab-mail.2", own.host));
        let given = Workers::new(Some("w".into()));
        assert_eq!(given.name(&instance, "mail", 1), "w");
        assert_eq!(given.name(&instance, "mail", 2), "w.2");
    }

    #[test]
    fn removed_workers_are_reported_and_all_must_get_a_shutdown() {
        let instance = Instance::from("i");
        let workers = Workers::new(Some("w".into()));
        assert_eq!(workers.set(&instance, &[pool("p", 2)]), Vec::<String>::new());
        assert!(!workers.shut_down("w"));
        assert!(workers.is_shut_down("w") && !workers.is_shut_down("w.2"));
        assert!(workers.shut_down("w.2"));
        assert!(!Workers::new(None).shut_down("x"));
        assert_eq!(workers.set(&instance, &[pool("p", 1)]), ["w.2"]);
        assert_eq!(workers.names(), ["w"]);
    }
}
