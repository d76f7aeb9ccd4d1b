//! Ends of jobs in the form that the script takes.

use redis::Cmd;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::job::packed;
use super::shared::{Asked, Held};
use common::stored;
use model::{Exit, ExitStatus, Failure, Forensics, Settlement, Verdict};

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
        /// Whether the worker has written the result, which is too long for a frame.
        #[serde(default)]
        laid_down: bool,
        result_ttl: Option<i64>,
        #[serde(default)]
        fields: BTreeMap<String, String>,
        retry: Option<Wish>,
    },
}

/// A `Retry` that the function returned.
#[derive(Deserialize, Serialize)]
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

    /// The end of a job with an id that is not UTF-8, which is not tried again: here ids are texts, so nobody could renew
    /// or settle it.
    pub(super) fn refused(id: &[u8]) -> End {
        let said = format!("the id of the job is not UTF-8, so it cannot be run: {}", id.escape_ascii());
        let fields = vec![("retries_left".to_owned(), b"0".to_vec())];
        End { fields, ..End::new("fail", json!({"exception": packed(&said)})) }
    }

    fn new(how: &'static str, said: Json) -> End {
        End { how, said, noted: String::new(), fields: Vec::new() }
    }

    fn unnoted(settlement: &Settlement, held: Option<&Held>, ttl: i64) -> End {
        let asked = held.and_then(|held| held.asked);
        let is_done = matches!(settlement.verdict, Verdict::Complete { next: None, .. });
        let failed = |failure: &Failure| {
            let timeout = held.and_then(|held| held.timeout);
            let mut said = json!({"exception": packed(&exception(settlement, failure, timeout))});
            if let Some(killed) = killed(settlement, failure) {
                said["callback"] = killed;
            }
            End::new("fail", said)
        };
        // A job that was done before the request reached it stays done.
        match if asked.is_some() && !is_done { &Verdict::Canceled } else { &settlement.verdict } {
            Verdict::Complete { next: Some(next), .. } => failed(&next.refused(ONE_QUEUE)),
            Verdict::Complete { result, next: None } => End::of_result(result.as_deref(), ttl),
            Verdict::Fail { failure } | Verdict::Hold { failure } => failed(failure),
            Verdict::Retry { after, failure } => {
                let mut end = End { how: "retry", ..failed(failure) };
                end.said["retry"] = json!({"intervals": [after.as_secs_f64()]});
                end
            }
            Verdict::Release { after, counts } => {
                End::new("release", json!({"after": after.as_secs_f64(), "counts": counts}))
            }
            Verdict::Canceled if asked == Some(Asked::Kill) => {
                let callback = json!({"kind": "killed", "status": 9});
                End::new("fail", json!({"exception": packed(&died(9)), "callback": callback}))
            }
            Verdict::Canceled => {
                let callback = json!({"kind": "stopped"});
                End::new("fail", json!({"exception": packed(STOPPED), "stopped": true, "callback": callback}))
            }
        }
    }

    fn of_result(result: Option<&str>, ttl: i64) -> End {
        match result.and_then(|text| serde_json::from_str(text).ok()) {
            Some(Said::Native {}) => {
                let said = died(0) + "RQ's code did not write how the job ended";
                End::new("native", json!({"exception": packed(&said)}))
            }
            Some(Said::Fast { rq, return_value, laid_down, result_ttl, fields, retry }) => {
                // Before version 3 RQ counts the intervals of a repeated job from the end.
                let is_old = rq.starts_with("1.") || rq.starts_with("2.");
                let said = json!({
                    "ttl": result_ttl.unwrap_or(ttl), "value": return_value, "laid": laid_down, "old": is_old, "retry": retry,
                });
                let bytes = |(name, text): (String, String)| Some((name, STANDARD.decode(text).ok()?));
                let how = if retry.is_some() { "retry" } else { "finish" };
                End { fields: fields.into_iter().filter_map(bytes).collect(), ..End::new(how, said) }
            }
            None => {
                let value = result.filter(|text| *text != "null").map(|text| STANDARD.encode(text));
                End::new("finish", json!({"ttl": ttl, "value": value}))
            }
        }
    }

    /// Whether a worker may have to run a callback.
    pub(super) fn has_callback(&self) -> bool {
        self.how == "fail" || self.said.get("callback").is_some()
    }

    /// Writes the end of an execution as the script reads it.
    pub(super) fn write(&self, cmd: &mut Cmd, job: &[u8], execution: &str) {
        cmd.arg(job).arg(execution).arg(self.how).arg(self.said.to_string()).arg(&self.noted);
        cmd.arg(2 * self.fields.len());
        self.fields.iter().for_each(|(name, bytes)| _ = cmd.arg(name).arg(bytes.as_slice()));
    }
}

/// How the id of an order ends that has a callback run by itself.
const ORDER: &str = "@taskvisor-callback";

/// Logs that a callback which ran by itself has failed. The end of its job is recorded all the same.
pub(super) fn tell_callback(settlement: &Settlement) {
    let (Verdict::Fail { failure } | Verdict::Hold { failure } | Verdict::Retry { failure, .. }) =
        &settlement.verdict
    else {
        return;
    };
    let job = settlement.job.as_str();
    let job = job.strip_suffix(ORDER).unwrap_or(job);
    let failure = failure.clone().shortened();
    let why = failure.message.lines().next().unwrap_or_default();
    tracing::warn!(job, "the callback of a job has failed: {}: {why}", failure.group);
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

/// The text of RQ's parent process about a work horse that died, by the status of waitpid.
fn died(status: i32) -> String {
    let signal = if (1..256).contains(&status) { format!(" (signal {status})") } else { String::new() };
    format!("Work-horse terminated unexpectedly; waitpid returned {status}{signal}; ")
}

/// The status of waitpid and the end, if the process died under the job.
fn death<'a>(settlement: &'a Settlement, failure: &Failure) -> Option<(i32, &'a Exit)> {
    let exit = settlement.forensics.as_ref()?.exit.as_ref()?;
    match exit.status {
        // waitpid has the exit code in the second byte of its status.
        ExitStatus::Code(code) if settlement.crashed => Some((code << 8, exit)),
        ExitStatus::Signal { signal, .. } if settlement.crashed || failure.trace.is_none() => {
            Some((signal, exit))
        }
        ExitStatus::Code(_) | ExitStatus::Signal { .. } => None,
    }
}

/// The arguments of `handle_work_horse_killed`, if the process died under the job: waitpid's status, and the resources
/// it used.
fn killed(settlement: &Settlement, failure: &Failure) -> Option<Json> {
    let (status, exit) = death(settlement, failure).filter(|(status, _)| *status != 0)?;
    let used = &exit.usage;
    let [user, system] = [used.user, used.system].map(|time| time.as_secs_f64());
    Some(
        // RQ's handler gets KiB, as getrusage gives them.
        json!({"kind": "killed", "status": status, "user": user, "system": system, "max_rss": used.max_rss / 1024}),
    )
}

/// The text that RQ would have written, followed by the true cause.
fn exception(settlement: &Settlement, failure: &Failure, timeout: Option<u64>) -> String {
    if failure.group == "time limit" {
        let limit = timeout.map_or_else(|| "None".into(), |seconds| seconds.to_string());
        return format!(
            "rq.timeouts.JobTimeoutException: Task exceeded maximum timeout value ({limit} seconds)\n{}",
            failure.message
        );
    }
    match death(settlement, failure) {
        Some((status, _)) => died(status) + &failure.message,
        None => failure.trace.clone().unwrap_or_else(|| format!("{}: {}", failure.group, failure.message)),
    }
}
