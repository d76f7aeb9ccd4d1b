//! What a table says of a job: an id short enough to type, how long it ran, why it is as it is.

use std::time::Duration;

use super::format::between;
use super::screen::headline;
use model::{JobRecord, Millis};

/// Length of an id that taskvisor makes, in letters.
pub const MADE: usize = 32;

/// Whether it is an id that taskvisor makes, or a long enough beginning of one.
pub fn is_made(id: &str, least: usize) -> bool {
    (least..=MADE).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Why a job is as it is, in a few words, if anything went wrong with it.
pub fn why(job: &JobRecord) -> Option<String> {
    let cause =
        job.cause().map(|why| if why.message.is_empty() { &why.group } else { headline(&why.message) });
    let unknown = || {
        (job.unknown > 0 && !job.state.has_ended()).then(|| format!("no worker knows class {}", job.class))
    };
    cause.map(str::to_owned).or_else(unknown)
}

/// How long its latest attempt has run, if that is known; it grows only for a running job. The worker's own measurement
/// counts: since the lease the job may have waited to run alone, and after its end it may have waited for a cancel.
pub fn ran(job: &JobRecord, now: Millis) -> Option<Duration> {
    let start = job.started_at?;
    if job.state.is_leased() {
        return Some(between(start, now));
    }
    // The forensics may be of an earlier attempt.
    let own = job.forensics.as_ref().filter(|left| left.at.is_none_or(|at| at >= start));
    own.map(|left| left.ran)
        .filter(|ran| !ran.is_zero())
        .or_else(|| job.ended_at.map(|ended| between(start, ended)))
}

/// Number of letters by which these ids differ, plus some: ids that were made at the same time and are not shown are
/// similar.
pub fn short<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    const LEAST: usize = 12;
    const MORE: usize = 4;
    let mut ids: Vec<&str> = ids.filter(|id| is_made(id, MADE)).collect();
    // Sorted, the most alike ids are neighbours.
    ids.sort_unstable();
    let alike = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(alike).max().map_or(LEAST, |alike| (alike + 1 + MORE).max(LEAST))
}

/// An id as a table shows it; one that a person has chosen stays whole.
pub fn shortened(id: &str, length: usize) -> &str {
    if is_made(id, MADE) { id.get(..length).unwrap_or(id) } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shortened_to_a_unique_prefix() {
        let ids = ["01a203e43ec072beb5cf71907bf23e6b", "01a203e43ec072beb5cf71907bf23e6c", "invoice-1"];
        assert_eq!(short(ids.iter().copied()), 36);
        assert_eq!(shortened(ids[0], 36), ids[0]);
        let length =
            short(["01a203e43ec072beb5cf71907bf23e6b", "01a203e53ec072beb5cf71907bf23e6b"].into_iter());
        assert_eq!(shortened(ids[0], length), "01a203e43ec0");
        assert_eq!(shortened(ids[2], 3), "invoice-1");
    }
}
