//! What is written to disk or stderr: the output of jobs and slots, and the supervisor's own log.

use log::{Outputs, OwnLog};
use model::LogStatus;

/// The writers of output and log.
pub(super) struct Logs {
    outputs: Outputs,
    own: OwnLog,
}

impl Logs {
    pub(super) fn new(outputs: Outputs, own: OwnLog) -> Logs {
        Logs { outputs, own }
    }

    /// The writer of the children's output.
    pub(super) fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Opens the files again, as somebody has moved them away.
    pub(super) fn reopen(&self) {
        self.outputs.reopen();
        self.own.reopen();
    }

    /// How much was dropped, and what is wrong with writing.
    pub(super) fn status(&self) -> LogStatus {
        let (output_dropped, output) = self.outputs.trouble();
        let (lines_dropped, own) = self.own.trouble();
        let (troubles, output_bytes) = (output.into_iter().chain(own).collect(), self.outputs.used());
        LogStatus { output_dropped, lines_dropped, troubles, output_bytes }
    }
}
