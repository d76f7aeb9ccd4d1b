//! Adds the history that the script of qless keeps of a job, also one of other programs, to ours.

use redis::Value;

use model::{Entry, Happened, JobRecord, JobState, Millis};
use redis_link::values;

/// An entry of the history of qless, which has times in whole seconds.
struct QlessEntry {
    at: Millis,
    what: String,
    more: serde_json::Value,
}

impl QlessEntry {
    /// An entry is `[when, "what"]` or `[when, "what", {…}]`.
    fn read(line: &Value) -> Option<QlessEntry> {
        let (when, what, more) = match values::json::<Vec<serde_json::Value>>(line)?.as_slice() {
            [when, what] => (when.as_f64()?, what.as_str()?.to_owned(), serde_json::Value::Null),
            [when, what, more, ..] => (when.as_f64()?, what.as_str()?.to_owned(), more.clone()),
            _ => return None,
        };
        Some(QlessEntry { at: Millis((when * 1000.0) as i64), what, more })
    }

    fn in_words(&self) -> String {
        let more =
            |name: &str| self.more.get(name).and_then(|text| text.as_str()).filter(|text| !text.is_empty());
        let mut words = self.what.clone();
        for (name, before) in [("q", "into queue"), ("worker", "by"), ("group", "in group")] {
            words.extend(more(name).map(|text| format!(" {before} {text}")));
        }
        words
    }
}

/// When the job was put by its first history entry, which qless always keeps.
pub(super) fn put_at(first: &Value) -> Option<Millis> {
    QlessEntry::read(first).filter(|told| told.what == "put").map(|told| told.at)
}

/// The queue into which an entry says the job was put.
pub(super) fn put_into(line: &Value) -> Option<String> {
    let told = QlessEntry::read(line).filter(|told| told.what == "put")?;
    told.more.get("q")?.as_str().map(str::to_owned)
}

/// If another program has ended a job, its hash lacks where it ran and how often it was tried there: takes both from
/// the history.
fn add_end(job: &mut JobRecord, lines: &[Value]) {
    if !job.state.has_ended() || job.instance.is_some() {
        return;
    }
    let Some(put) = lines.iter().rposition(|line| put_into(line).is_some()) else { return };
    let is_try = |line: &&Value| QlessEntry::read(line).is_some_and(|told| told.what == "popped");
    let tries = lines[put..].iter().filter(is_try).count();
    job.attempt = job.attempt.max(u32::try_from(tries).unwrap_or(u32::MAX));
    if let Some(queue) = put_into(&lines[put]) {
        job.queue = queue.into();
    }
}

/// Adds the entries that only the history of qless has.
pub(super) fn add(job: &mut JobRecord, lines: &[Value]) {
    add_end(job, lines);
    let own = own(job);
    let mut latest = job.put_at;
    let mut noted = Vec::new();
    for (number, told) in lines.iter().filter_map(QlessEntry::read).enumerate() {
        // The record itself says when the job was put.
        if number == 0 && told.what == "put" {
            continue;
        }
        let same =
            own.iter().find(|(what, at)| *what == told.what && at.0.div_euclid(1000) == told.at.0 / 1000);
        if let Some((_, at)) = same {
            latest = latest.max(*at);
            continue;
        }
        // It came after the entry before it, even in the same second.
        latest = told.at.max(Millis(latest.0.saturating_add(1)));
        noted.push(Entry { at: latest, what: Happened::Noted { what: told.in_words() } });
    }
    job.history.append(&mut noted);
    job.history.sort_by_key(|entry| entry.at);
}

/// Events that taskvisor knows more exactly: the word of qless for each, and when.
fn own(job: &JobRecord) -> Vec<(&'static str, Millis)> {
    let mut own = Vec::new();
    let started = |of: Option<Millis>| of.map(|at| ("popped", at));
    for Entry { at, what } in &job.history {
        match what {
            Happened::Attempt(attempt) => {
                own.extend(started(attempt.started_at));
                let end = if attempt.state == JobState::Complete { "done" } else { "failed" };
                own.push((end, *at));
            }
            Happened::Retried { .. } | Happened::Advanced { .. } => own.extend([("put", *at), ("done", *at)]),
            Happened::Canceled { .. } | Happened::Edited { .. } | Happened::Noted { .. } => {}
        }
    }
    own.extend(started(job.started_at.filter(|_| job.holder.is_none())));
    own.extend(job.ended_at.into_iter().flat_map(|at| [("done", at), ("failed", at)]));
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_entry_is_read_in_each_format() {
        let words =
            |line: &str| QlessEntry::read(&Value::BulkString(line.into())).map(|told| told.in_words());
        assert_eq!(words(r#"[5,"timed-out"]"#).as_deref(), Some("timed-out"));
        assert_eq!(words(r#"[5,"put",{"q":"mail"}]"#).as_deref(), Some("put into queue mail"));
        assert_eq!(words(r#"[5,"popped",{"worker":"host-1"}]"#).as_deref(), Some("popped by host-1"));
        assert_eq!(words(r#"[5,"failed",{"worker":"","group":"g"}]"#).as_deref(), Some("failed in group g"));
        for none in ["", "[]", "[5]", r#"["put",5]"#, "{}"] {
            assert_eq!(words(none), None, "{none}");
        }
    }
}
