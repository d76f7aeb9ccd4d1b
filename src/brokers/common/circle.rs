//! Refuses jobs that would wait for each other in a circle, and so for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use broker::Error;
use model::JobId;

/// Fails if jobs of one batch wait for each other in a circle. Each job comes with the jobs of the batch that it needs.
pub fn refuse_among(batch: &BTreeMap<&JobId, Vec<&JobId>>) -> Result<(), Error> {
    let mut needed_by: HashMap<&JobId, Vec<&JobId>> = HashMap::new();
    let mut counts: HashMap<&JobId, usize> = HashMap::new();
    for (id, needs) in batch {
        counts.insert(id, needs.len());
        needs.iter().for_each(|need| needed_by.entry(need).or_default().push(id));
    }
    let mut free: Vec<&JobId> =
        batch.iter().filter(|(_, needs)| needs.is_empty()).map(|(id, _)| *id).collect();
    let mut stuck: BTreeSet<&JobId> = batch.keys().copied().collect();
    // Kahn's algorithm: takes away what needs no other. What is left is in a circle, or needs one that is.
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

/// The error for a circle; `names` are the jobs on the way from one back to itself. Of a long way it names the first few.
pub fn refusal(names: &[JobId]) -> Error {
    const SHOWN: usize = 8;
    let way = names.iter().take(SHOWN).map(|id| format!("'{id}'")).collect::<Vec<_>>();
    let more = match names.len() {
        0..=SHOWN => String::new(),
        many => format!(" and so on, {} jobs in all", many - 1),
    };
    Error::Refused(match &way[..] {
        [only] | [only, _] => format!("job {only} cannot depend on itself"),
        _ => format!("jobs cannot wait for each other in a circle: {}{more}", way.join(" needs ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_circle_is_told_by_its_first_jobs_and_their_number() {
        let way: Vec<JobId> = (0..5000).chain([0]).map(|job: u32| job.to_string().into()).collect();
        let said = refusal(&way).to_string();
        assert!(said.ends_with(": '0' needs '1' needs '2' needs '3' needs '4' needs '5' needs '6' needs '7' and so on, 5000 jobs in all"), "{said}");
        assert!(refusal(&way[..3]).to_string().ends_with(": '0' needs '1' needs '2'"));
    }
}
