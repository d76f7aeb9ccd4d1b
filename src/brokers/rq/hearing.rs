//! The places on which the ends of jobs are heard.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Limit of the connections on which results are heard. One request may wait for a thousand jobs, and the server has to
/// serve others, too.
const MOST: usize = 16;

/// What all that wait for ends share.
#[derive(Debug)]
pub(super) struct Hearing {
    pub places: Arc<Semaphore>,
    /// Has an owner more for each job whose results are not heard.
    pub deaf: Arc<()>,
}

impl Default for Hearing {
    fn default() -> Self {
        Hearing { places: Arc::new(Semaphore::new(MOST)), deaf: Arc::default() }
    }
}
