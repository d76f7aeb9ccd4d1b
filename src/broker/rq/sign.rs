//! Registers workers in Redis, and removes them.

use redis::Cmd;

use super::shared::{Shared, lock};
use super::workers::{Known, Workers};
use crate::broker::Error;
use crate::broker::redis::values::write_list;
use crate::model::QueueName;

/// The version of RQ whose keys are written.
const VERSION: &str = "3.0.0";

impl Workers {
    /// Registers the workers, which keeps them alive for RQ.
    pub(super) async fn sign(&self, shared: &Shared) -> Result<(), Error> {
        let all: Vec<(String, Known)> =
            lock(&self.all).iter().map(|(name, known)| (name.clone(), known.clone())).collect();
        if all.is_empty() {
            return Ok(());
        }
        let common = [
            ("hostname", self.host().to_owned()),
            // RQ's own workers use the same word where the server does not tell.
            ("ip_address", shared.link.client_address().await?.unwrap_or_else(|| "unknown".into())),
            ("pid", std::process::id().to_string()),
            ("version", VERSION.into()),
            ("python_version", String::new()),
        ];
        let write = |cmd: &mut Cmd| {
            cmd.arg(shared.settings.worker_ttl).arg(2 * common.len());
            common.iter().for_each(|(name, value)| _ = cmd.arg(*name).arg(value));
            cmd.arg(all.len());
            for (name, known) in &all {
                cmd.arg(name).arg(if known.is_signed { "again" } else { "first" });
                write_list(cmd, known.queues.iter().map(QueueName::as_str));
            }
        };
        shared.call("tell workers to", "sign", write).await?;
        let mut now = lock(&self.all);
        for (name, known) in &all {
            if let Some(worker) = now.get_mut(name).filter(|worker| worker.queues == known.queues) {
                worker.is_signed = true;
            }
        }
        Ok(())
    }

    /// Removes workers that are gone, and the scheduler of these queues.
    pub(super) async fn leave(
        &self,
        shared: &Shared,
        names: &[String],
        queues: &[QueueName],
    ) -> Result<(), Error> {
        let write = |cmd: &mut Cmd| {
            write_list(cmd, names.iter().map(String::as_str));
            cmd.arg(shared.scheduler());
            write_list(cmd, queues.iter().map(QueueName::as_str));
        };
        shared.call("take workers out of", "leave", write).await.map(drop)
    }
}

impl Shared {
    /// The owner of RQ's lock of the scheduler.
    pub(super) fn scheduler(&self) -> String {
        let base = self.instance.get().map_or("", |instance| self.workers.base(instance));
        format!("{base}-scheduler-{}", std::process::id())
    }
}
