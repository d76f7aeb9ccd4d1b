//! Where the output of jobs is.

use api::JobOutput;
use log::Outputs;
use model::{Instance, JobRecord, Millis};

/// Milliseconds by which the store's clock and that of the files may differ, generously.
const CLOCKS_APART: i64 = 60_000;

/// Finds the output of jobs.
pub(super) struct OutputPlaces {
    /// Output is read from its files.
    pub outputs: Outputs,
    /// The name of this supervisor.
    pub instance: Instance,
}

impl OutputPlaces {
    /// The output of a job, as far as it is here.
    pub fn of(&self, job: JobRecord) -> JobOutput {
        let is_near = |until: &Millis| job.put_at.0 <= until.0 + CLOCKS_APART;
        JobOutput {
            reader: self.outputs.reader(&job.id),
            state: job.state,
            removed_until: self.outputs.removed_until().filter(is_near),
            elsewhere: job.instance.filter(|instance| *instance != self.instance),
        }
    }
}
