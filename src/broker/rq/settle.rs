//! Ends of jobs in the form that the script takes.

use redis::Cmd;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::job::packed;
use super::shared::{Asked, Held};
use crate::broker::{Error, Settling, stored};
use crate::model::{ExitStatus, Failure, Forensics, JobState, Settlement, Verdict};

/// RQ's text for a job that was stopped.
pub(super) const STOPPED: &str = "Job stopped by user, work-horse terminated.";
/// Why a job cannot go on in another queue.
const ONE_QUEUE: &str = "a job of RQ is in one queue; let it put another one";

/// The fields that the script writes for one end.
#[derive(Debug, PartialEq)]
pub(super) struct End {
    how: &'static str,
    said: Json,
    /// The rest of the line for the job's history; empty for a job that is released without a count.
    noted: String,
    fields: Vec<(String, Vec<u8>)>,
}

/// A Python worker's answer about a job that it has run. Any other answer is the value that the function returned.
#[derive(Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
enum Said {
    /// RQ's own code has written the end, or died before it could.
    Native {},
    Fast {
        #[serde(default)]
        rq: String,
        return_value: Option<String>,
        result_ttl: Option<i64>,
        #[serde(default)]
        fields: BTreeMap<String, String>,
        retry: Option<Wish>,
    },
}

/// A `Retry` that the function returned.
#[derive(Deserialize)]
struct Wish {
    max: u64,
    #[serde(default)]
    intervals: Vec<f64>,
    #[serde(default)]
    at_front: bool,
}

impl End {
    /// The end for a settlement; `held` is what is known of the job, `ttl` how long to keep results.
    pub(super) fn of(settlement: &Settlement, held: Option<&Held>, ttl: i64) -> End {
        let mut end = End::unnoted(settlement, held, ttl);
        end.said["crashed"] = settlement.crashed.into();
        end.noted = noted(settlement);
        end
    }

    fn unnoted(settlement: &Settlement, held: Option<&Held>, ttl: i64) -> End {
        let timeout = held.and_then(|held| held.timeout);
        let plain = |how, said| End { how, said, noted: String::new(), fields: Vec::new() };
        let failed = |failure: &Failure| {
            let mut said = json!({"exception": packed(&exception(settlement, failure, timeout))});
            if let Some(killed) = killed(settlement, failure) {
                said["callback"] = killed;
            }
            plain("fail", said)
        };
        let asked = held.and_then(|held| held.asked);
        let is_done = matches!(settlement.verdict, Verdict::Complete { next: None, .. });
        let is_ended = asked.is_some() && !is_done;
        match if is_ended { &Verdict::Canceled } else { &settlement.verdict } {
            Verdict::Complete { next: Some(next), .. } => failed(&next.refused(ONE_QUEUE)),
            Verdict::Complete { result, next: None } => End::of_result(result.as_deref(), settlement, ttl),
            Verdict::Fail { failure } | Verdict::Hold { failure } => failed(failure),
            Verdict::Retry { after, failure } => {
                let End { mut said, .. } = failed(failure);
                said["retry"] = json!({"intervals": [after.as_secs_f64()]});
                plain("retry", said)
            }
            Verdict::Release { after, counts } => {
                plain("release", json!({"after": after.as_secs_f64(), "counts": counts}))
            }
            Verdict::Canceled => match asked {
                Some(Asked::Kill) => {
                    let said = packed(&died(9, Some(9)));
                    plain("fail", json!({"exception": said, "callback": {"kind": "killed", "status": 9}}))
                }
                Some(Asked::Stop) | None => {
                    let said = packed(STOPPED);
                    plain(
                        "fail",
                        json!({"exception": said, "stopped": true, "callback": {"kind": "stopped"}}),
                    )
                }
            },
        }
    }

    fn of_result(result: Option<&str>, settlement: &Settlement, ttl: i64) -> End {
        let said = result.and_then(|text| serde_json::from_str(text).ok());
        match said {
            Some(Said::Native {}) => {
                let said = died(0, None) + "RQ's code did not write how the job ended";
                let said = json!({"exception": packed(&said)});
                End { how: "native", said, noted: String::new(), fields: Vec::new() }
            }
            Some(Said::Fast { rq, return_value, result_ttl, fields, retry }) => {
                let is_old = rq.starts_with("1.") || rq.starts_with("2.");
                let mut said =
                    json!({"ttl": result_ttl.unwrap_or(ttl), "value": return_value, "old": is_old});
                let is_retry = retry.is_some();
                if let Some(Wish { max, intervals, at_front }) = retry {
                    said["retry"] = json!({"max": max, "intervals": intervals, "at_front": at_front});
                }
                let bytes = |(name, text): (String, String)| Some((name, STANDARD.decode(text).ok()?));
                let fields = fields.into_iter().filter_map(bytes).collect();
                End { how: if is_retry { "retry" } else { "finish" }, said, noted: String::new(), fields }
            }
            None => {
                let value = result.filter(|text| *text != "null").map(|text| STANDARD.encode(text));
                debug_assert!(matches!(settlement.verdict, Verdict::Complete { .. }));
                let said = json!({"ttl": ttl, "value": value});
                End { how: "finish", said, noted: String::new(), fields: Vec::new() }
            }
        }
    }

    /// Whether a worker may have to run a callback.
    pub(super) fn has_callback(&self) -> bool {
        self.how == "fail" || self.said.get("callback").is_some()
    }

    /// Writes the end of an execution as the script reads it.
    pub(super) fn write(&self, cmd: &mut Cmd, job: &str, execution: &str) {
        cmd.arg(job).arg(execution).arg(self.how).arg(self.said.to_string()).arg(&self.noted);
        cmd.arg(2 * self.fields.len());
        self.fields.iter().for_each(|(name, bytes)| _ = cmd.arg(name).arg(bytes.as_slice()));
    }
}

/// The part of the history line after what history.lua knows of the attempt.
fn noted(settlement: &Settlement) -> String {
    let (failure, counts) = match &settlement.verdict {
        Verdict::Release { counts: None, .. } => return String::new(),
        Verdict::Release { counts, .. } => (None, *counts),
        Verdict::Complete { next: Some(next), .. } => (Some(next.refused(ONE_QUEUE)), None),
        Verdict::Fail { failure } | Verdict::Hold { failure } | Verdict::Retry { failure, .. } => {
            (Some(failure.clone()), None)
        }
        Verdict::Complete { next: None, .. } | Verdict::Canceled => (None, None),
    };
    let failure = failure.and_then(|failure| stored::to_json(&failure.shortened()).ok());
    let forensics = settlement.forensics.clone().map(Forensics::shortened);
    let forensics = forensics.and_then(|forensics| stored::to_json(&forensics).ok());
    format!(
        r#","crashed":{},"counts":{},"failure":{},"forensics":{}"#,
        settlement.crashed,
        json!(counts),
        failure.as_deref().unwrap_or("null"),
        forensics.as_deref().unwrap_or("null")
    )
}

/// The text of RQ's parent process about a work horse that died.
fn died(waitpid: i32, signal: Option<i32>) -> String {
    let signal = signal.map(|signal| format!(" (signal {signal})")).unwrap_or_default();
    format!("Work-horse terminated unexpectedly; waitpid returned {waitpid}{signal}; ")
}

/// The arguments of `handle_work_horse_killed`, if the process died under the job: waitpid's status, and the resources
/// it used.
fn killed(settlement: &Settlement, failure: &Failure) -> Option<Json> {
    let exit = settlement.forensics.as_ref()?.exit.as_ref()?;
    let status = match exit.status {
        ExitStatus::Code(code) if settlement.crashed => code << 8,
        ExitStatus::Signal { signal, .. } if settlement.crashed || failure.trace.is_none() => signal,
        ExitStatus::Code(_) | ExitStatus::Signal { .. } => 0,
    };
    let used = &exit.usage;
    let [user, system] = [used.user, used.system].map(|time| time.as_secs_f64());
    (status != 0).then(|| {
        json!({"kind": "killed", "status": status, "user": user, "system": system, "max_rss": used.max_rss / 1024})
    })
}

/// The text that RQ would have written, followed by the true cause.
fn exception(settlement: &Settlement, failure: &Failure, timeout: Option<u64>) -> String {
    let exit = settlement.forensics.as_ref().and_then(|forensics| forensics.exit.as_ref());
    if failure.group == "time limit" {
        let limit = timeout.map_or_else(|| "None".into(), |seconds| seconds.to_string());
        return format!(
            "rq.timeouts.JobTimeoutException: Task exceeded maximum timeout value ({limit} seconds)\n{}",
            failure.message
        );
    }
    match exit.map(|exit| exit.status) {
        Some(ExitStatus::Code(code)) if settlement.crashed => died(code << 8, None) + &failure.message,
        Some(ExitStatus::Signal { signal, .. }) if settlement.crashed || failure.trace.is_none() => {
            died(signal, Some(signal)) + &failure.message
        }
        _ => failure.trace.clone().unwrap_or_else(|| format!("{}: {}", failure.group, failure.message)),
    }
}

/// What became of a job, by the script's answer.
pub(super) fn settled(job: &str, answer: Option<&str>) -> Settling {
    Settling::Settled(match answer {
        Some("complete") => JobState::Complete,
        Some("failed") => JobState::Failed,
        Some("waiting") => JobState::Waiting,
        Some("delayed") => JobState::Delayed,
        Some("depends") => JobState::Depends,
        Some("canceled") => JobState::Canceled,
        Some("lost") => return Settling::NotOurs,
        other => {
            return Settling::Failed(Error::Failed(format!(
                "Redis answered {other:?} to the end of job {job}"
            )));
        }
    })
}
