//! Refuses jobs that would wait for each other in a circle, and so for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Error;
use crate::model::JobId;

/// Fails if jobs of one batch wait for each other in a circle. Each job comes with the jobs of the batch that it needs.
pub(super) fn refuse_among(batch: &BTreeMap<&JobId, Vec<&JobId>>) -> Result<(), Error> {
    let mut needed_by: HashMap<&JobId, Vec<&JobId>> = HashMap::new();
    let mut counts: HashMap<&JobId, usize> = HashMap::new();
    for (id, needs) in batch {
        counts.insert(id, needs.len());
        needs.iter().for_each(|need| needed_by.entry(need).or_default().push(id));
    }
    let mut free: Vec<&JobId> =
        batch.iter().filter(|(_, needs)| needs.is_empty()).map(|(id, _)| *id).collect();
    let mut stuck: BTreeSet<&JobId> = batch.keys().copied().collect();
    while let Some(id) = free.pop() {
        stuck.remove(id);
        for next in needed_by.get(id).into_iter().flatten() {
            let count = counts.entry(next).or_default();
            *count -= 1;
            if *count == 0 {
                free.push(next);
            }
        }
    }
    let Some(first) = stuck.first() else { return Ok(()) };
    // Each stuck job needs another stuck one: follow them until one comes a second time.
    let mut way = vec![*first];
    loop {
        let needs = batch.get(way[way.len() - 1]).into_iter().flatten();
        let Some(next) = needs.copied().find(|need| stuck.contains(need)) else { return Ok(()) };
        if let Some(start) = way.iter().position(|id| *id == next) {
            let names: Vec<JobId> = way[start..].iter().chain([&next]).map(|id| (*id).clone()).collect();
            return Err(refusal(&names));
        }
        way.push(next);
    }
}

/// The error for a circle; `names` are the jobs on the way from one back to itself.
pub(super) fn refusal(names: &[JobId]) -> Error {
    let way = names.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>();
    Error::Refused(match &way[..] {
        [only] | [only, _] => format!("job {only} cannot depend on itself"),
        _ => format!("jobs cannot wait for each other in a circle: {}", way.join(" needs ")),
    })
}
