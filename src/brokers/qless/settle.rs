//! Verdicts in the form that the script takes.

use redis::Cmd;

use broker::{Error, Settling};
use common::stored::{self, Stored};
use model::verb::ClassSums;
use model::{Count, Failure, Forensics, JobId, JobState, Millis, Settlement, Verdict};

/// Writes one verdict; `at` is by the server's clock.
pub(super) fn write(cmd: &mut Cmd, settlement: &Settlement, at: Millis) {
    let refused = if let Verdict::Complete { next: Some(next), .. } = &settlement.verdict {
        // It has run to its end, so it waits for a person and is not tried again.
        next.fault().map(|fault| Verdict::Hold { failure: next.refused(&fault) })
    } else {
        None
    };
    let said = refused.as_ref().unwrap_or(&settlement.verdict);
    cmd.arg(settlement.job.as_str())
        .arg(settlement.fence.0)
        .arg(said.word())
        .arg(u8::from(settlement.crashed));
    let ran = settlement.forensics.as_ref().map(|left| left.ran.as_millis()).filter(|ran| *ran > 0);
    cmd.arg(ran.map(|millis| (millis as f64 / 1000.0).to_string()).unwrap_or_default());
    let (cpu, peak_rss) = ClassSums::used(settlement).unzip();
    let text = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    cmd.arg(text(cpu)).arg(text(peak_rss));
    let stamped = settlement.forensics.clone().map(|left| Forensics { at: Some(at), ..left });
    cmd.arg(json(stamped.as_ref()));
    // The short one is for the line of the attempt, which a job that is complete does not get.
    let is_last = matches!(said, Verdict::Complete { next: None, .. });
    let short = if is_last { None } else { stamped.map(Forensics::shortened) };
    cmd.arg(json(short.as_ref()));
    match said {
        Verdict::Complete { result, next } => {
            cmd.arg(result.as_deref().unwrap_or_default());
            if let Some(next) = next {
                cmd.arg(next.queue.as_str()).arg(next.delay.as_secs_f64()).arg(next.depends.len());
                for need in &next.depends {
                    cmd.arg(need.as_str());
                }
            }
        }
        Verdict::Release { after, counts } => {
            cmd.arg(after.as_secs_f64()).arg(counts.map_or("", |counts| match counts {
                Count::Interrupted => "\"interrupted\"",
                Count::Stopped => "\"stopped\"",
                Count::UnknownClass => "\"unknown_class\"",
            }));
        }
        Verdict::Retry { after, failure } => write_failure(cmd, after.as_secs_f64(), failure),
        Verdict::Fail { failure } | Verdict::Hold { failure } => write_failure(cmd, 0.0, failure),
        Verdict::Canceled => {}
    }
}

/// Reads the script's answer to one verdict.
pub(super) fn answer(job: &JobId, said: Option<&str>) -> Settling {
    if said == Some("advanced") {
        return Settling::Settled(JobState::Complete);
    }
    Settling::read(said, |why| Error::Failed(format!("cannot settle job '{job}' in Redis: {why}")))
}

fn write_failure(cmd: &mut Cmd, after: f64, failure: &Failure) {
    let short = failure.clone().shortened();
    cmd.arg(after).arg(json(Some(failure))).arg(json(Some(&short)));
    cmd.arg(&failure.group).arg(&failure.message);
}

/// The value as JSON; empty for None.
fn json<T>(value: Option<&T>) -> String
where
    for<'a> Stored<&'a T>: serde::Serialize,
{
    value.and_then(|value| stored::to_json(value).ok()).unwrap_or_default()
}
