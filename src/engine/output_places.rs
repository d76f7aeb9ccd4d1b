//! Where the output of jobs is.

use api::JobOutput;
use log::Outputs;
use model::{Instance, JobRecord};

/// Finds the output of jobs.
pub(super) struct OutputPlaces {
    /// Output is read from its files.
    outputs: Outputs,
    /// The name of this supervisor.
    pub instance: Instance,
}

impl OutputPlaces {
    /// Those of one supervisor.
    pub(crate) fn new(outputs: &Outputs, instance: &Instance) -> OutputPlaces {
        OutputPlaces { outputs: outputs.clone(), instance: instance.clone() }
    }

    /// The output of a job, as far as it is here.
    pub(crate) fn of(&self, job: JobRecord) -> JobOutput {
        JobOutput {
            reader: self.outputs.reader(&job.id),
            state: job.state,
            put_at: job.put_at,
            elsewhere: job.instance.filter(|instance| *instance != self.instance),
        }
    }
}
