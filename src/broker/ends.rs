//! Waits for the ends of many jobs at once.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use super::{Broker, Error, JobEnd};
use model::JobId;
use model::verb::Ability;

/// Limit of the jobs that are waited for at a time where each has to be asked for.
const MOST: usize = 1000;

impl Broker {
    /// Tells the end of each job as it comes, until the receiver is gone: see [`Browse::tell_ends`](super::Browse).
    pub async fn tell_ends(
        self: &Arc<Self>,
        jobs: Vec<JobId>,
        told: UnboundedSender<JobEnd>,
    ) -> Result<(), Error> {
        // A broker that tells them all by itself needs no limit.
        if self.browse(Ability::Show)?.tell_ends(&jobs, &told).await? {
            return Ok(());
        }
        if jobs.len() > MOST {
            let (count, broker) = (jobs.len(), self.card().name);
            return Err(Error::Refused(format!(
                "cannot wait for {count} jobs at a time: over {broker} each is asked for, and {MOST} are the most"
            )));
        }
        for job in jobs {
            let (broker, told) = (self.clone(), told.clone());
            tokio::spawn(async move {
                tokio::select! {
                    end = broker.ended(job.clone()) => drop(told.send((job, end))),
                    // With its caller gone the task ends, however long the job still runs.
                    () = told.closed() => {}
                }
            });
        }
        Ok(())
    }
}
