//! A change of the ledger, and the bytes that it holds.

use broker::{Error, Fetch, Recovery};
use model::{Count, Fence, Forensics, Instance, JobId, Settlement, Verdict, WorkerId};
use sqlite::{Adopted, Delivery, Elsewhere, Sqlite};

/// A change of the ledger. Made twice in a row, it changes no more than made once.
#[derive(Clone)]
pub(super) enum Write {
    /// Deliveries, each with its worker.
    Adopt(Fetch, Vec<(Delivery, WorkerId)>),
    /// How jobs ended, and messages that run no more.
    Ends(Vec<Settlement>, Vec<String>),
    /// A message that runs no more though it was no job, or one that is held, with the job that it names.
    Discarded(String, JobId),
    /// Leases that are lost, each with what its end counts as.
    Lost(Vec<(JobId, Fence, Count)>),
    /// Jobs that ended elsewhere.
    Learn(Vec<(JobId, Elsewhere)>),
    /// Words for the histories of jobs.
    Noted(Vec<(JobId, String)>),
    /// Deliveries that were no attempts, each with its number.
    GaveBack(Vec<(JobId, u32)>),
    /// The jobs of an instance wait again, apart from these.
    Recover(Instance, Vec<(JobId, Fence)>),
}

impl Write {
    /// What failed if it fails.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Write::Adopt(..) => "failed to write jobs into the ledger",
            Write::Ends(..) | Write::Discarded(..) => "failed to write ends of jobs into the ledger",
            Write::Lost(_) => "failed to write into the ledger which leases are lost",
            Write::Learn(_) => "failed to write into the ledger what ended elsewhere",
            Write::Noted(_) => "failed to write into the ledger what happened to jobs",
            Write::GaveBack(_) => "failed to write into the ledger what went back",
            Write::Recover(..) => "failed to write into the ledger what waits again",
        }
    }

    /// About the bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        // About what ids and numbers take beside the texts.
        const EACH: usize = 256;
        match self {
            Write::Adopt(_, given) => {
                given.iter().map(|(delivery, _)| EACH + delivery.job.payload.bytes()).sum()
            }
            Write::Ends(ends, messages) => ends.iter().map(end_bytes).sum::<usize>() + EACH * messages.len(),
            Write::Discarded(..) => EACH,
            Write::Lost(leases) => EACH * leases.len(),
            Write::Learn(ended) => ended.iter().map(|(_, how)| EACH + elsewhere_bytes(how)).sum(),
            Write::Noted(notes) => notes.iter().map(|(_, what)| EACH + what.len()).sum(),
            Write::GaveBack(jobs) => EACH * jobs.len(),
            Write::Recover(_, keep) => EACH * keep.len(),
        }
    }

    /// Makes it; gives the answers for deliveries.
    pub(crate) async fn make(self, store: &Sqlite) -> Result<Vec<Adopted>, Error> {
        match self {
            Write::Adopt(request, given) => return store.adopt(request, given).await,
            Write::Ends(ends, messages) => drop(store.note_ends(ends, messages).await?),
            Write::Discarded(message, job) => store.discarded(message, job).await?,
            Write::Lost(leases) => store.lost(leases).await?,
            Write::Learn(ended) => store.learn(ended).await?,
            Write::Noted(notes) => store.noted(notes).await?,
            Write::GaveBack(jobs) => store.gave_back(jobs).await?,
            Write::Recover(instance, keep) => drop(store.recover(instance, keep).await?),
        }
        Ok(Vec::new())
    }
}

/// About the bytes of the end of a job.
fn end_bytes(end: &Settlement) -> usize {
    let verdict = match &end.verdict {
        Verdict::Complete { result, .. } => result.as_ref().map_or(0, String::len),
        Verdict::Retry { failure, .. } | Verdict::Fail { failure } | Verdict::Hold { failure } => {
            failure.bytes()
        }
        Verdict::Release { .. } | Verdict::Canceled => 0,
    };
    size_of::<Settlement>() + verdict + end.forensics.as_ref().map_or(0, Forensics::bytes)
}

fn elsewhere_bytes(how: &Elsewhere) -> usize {
    match how {
        Elsewhere::Complete { result } => result.as_ref().map_or(0, String::len),
        Elsewhere::Failed(failure) => failure.bytes(),
    }
}
