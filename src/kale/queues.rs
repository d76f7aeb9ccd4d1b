//! kale's file of queues (QUEUE_CONFIG): read unchanged, with the line of each error. kale itself checks nothing, and
//! its workers die of most of these errors.

use std::collections::BTreeMap;

use serde_yaml::Value;

use super::queue_error::QueuesError;
use super::queue_lines::Lines;
use super::queue_name::QueueNames;

/// A queue of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// `name`: the value of `Task.queue` in tasks.
    pub name: String,
    /// `priority`: tickets in the lottery, 1 to 100.
    pub priority: u64,
    /// `num_iterations`: receives in a row once the queue is chosen, from 1 on.
    pub num_iterations: u64,
    /// `long_poll_time_sec`: seconds that a receive waits, 1 to 20. A 0 in the file is 20, as in kale.
    pub long_poll_time_sec: u64,
    /// `batch_size`: messages in one receive, 1 to 10.
    pub batch_size: u64,
    /// `visibility_timeout_sec`: seconds for which received messages are hidden, 1 to 43,200.
    pub visibility_timeout_sec: u64,
    /// The line of its key in the file, counted from 1; 0 if it was not found.
    pub line: usize,
}

/// Reads the file: its queues by priority, the highest first, or all errors at once.
pub fn read_queues(text: &str) -> Result<Vec<Queue>, Vec<QueuesError>> {
    let lines = Lines::new(text);
    // Before YAML is read, whose own error does not name both lines.
    let mut mistakes = lines.repeated();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let wrong = |error: serde_yaml::Error| vec![QueuesError::Yaml(error.to_string())];
    let mut document: Value = serde_yaml::from_str(text).map_err(wrong)?;
    // The merge keys of YAML (`<<`), which Python's parser applies by itself.
    document.apply_merge().map_err(wrong)?;
    let Value::Mapping(entries) = document else { return Err(vec![QueuesError::None]) };
    let mut queues = Vec::new();
    for (key, value) in &entries {
        let key = shown(key);
        let reader = Reader { lines: &lines, key: &key };
        match value {
            Value::Mapping(_) => {
                reader.queue(value, &mut mistakes).map(|queue| queues.push(queue)).unwrap_or_default()
            }
            Value::Null => mistakes.push(reader.empty()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Sequence(_) | Value::Tagged(_) => {
                let place = lines.queue(&key);
                mistakes.push(QueuesError::NoMap { key, place });
            }
        }
    }
    if entries.is_empty() {
        mistakes.push(QueuesError::None);
    }
    mistakes.extend(same_names(&queues));
    // A stable sort: of equal ones the first in the file comes first, as in kale.
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.priority));
    if mistakes.is_empty() { Ok(queues) } else { Err(mistakes) }
}

fn same_names(queues: &[Queue]) -> Vec<QueuesError> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut mistakes = Vec::new();
    for queue in queues {
        match seen.get(queue.name.as_str()) {
            Some(first) => mistakes.push(QueuesError::SameName {
                name: queue.name.clone(),
                first: *first,
                again: queue.line,
            }),
            None => drop(seen.insert(&queue.name, queue.line)),
        }
    }
    mistakes
}

struct Reader<'a> {
    lines: &'a Lines<'a>,
    key: &'a str,
}

impl Reader<'_> {
    fn empty(&self) -> QueuesError {
        let place = self.lines.queue(self.key);
        QueuesError::Empty { key: self.key.into(), place, next: self.lines.next_after(place) }
    }

    /// Reads a queue. Errors are added to `mistakes`.
    fn queue(&self, of: &Value, mistakes: &mut Vec<QueuesError>) -> Option<Queue> {
        let before = mistakes.len();
        if of.as_mapping().is_some_and(serde_yaml::Mapping::is_empty) {
            mistakes.push(self.empty());
            return None;
        }
        // Goes on after a mistake, to find all at once.
        let name = self.name(of).map_err(|mistake| mistakes.push(mistake)).unwrap_or_default();
        let mut number = |setting, least, most| {
            self.number(of, setting, least, most)
                .map_err(|mistake| mistakes.push(mistake))
                .unwrap_or_default()
        };
        let queue = Queue {
            name,
            priority: number("priority", 1, 100),
            num_iterations: number("num_iterations", 1, u64::MAX),
            long_poll_time_sec: match number("long_poll_time_sec", 0, 20) {
                0 => 20,
                seconds => seconds,
            },
            batch_size: number("batch_size", 1, 10),
            visibility_timeout_sec: number("visibility_timeout_sec", 1, 43_200),
            line: self.lines.queue(self.key).0,
        };
        (mistakes.len() == before).then_some(queue)
    }

    fn name(&self, of: &Value) -> Result<String, QueuesError> {
        let place = self.lines.setting(self.key, "name");
        let name = match of.get("name") {
            None => return Err(self.missing("name")),
            Some(Value::String(name)) => name.clone(),
            Some(other) => return Err(self.wrong("name", other, "a text")),
        };
        // Without a prefix: the file does not say for which release it is.
        QueueNames::new(&name, None).map_err(|error| QueuesError::Name { place, error })?;
        Ok(name)
    }

    fn number(&self, of: &Value, setting: &'static str, least: u64, most: u64) -> Result<u64, QueuesError> {
        let value = of.get(setting).ok_or_else(|| self.missing(setting))?;
        let range = match most {
            u64::MAX => format!("a whole number from {least} on"),
            _ => format!("a whole number from {least} to {most}"),
        };
        value
            .as_u64()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.wrong(setting, value, &range))
    }

    fn missing(&self, setting: &'static str) -> QueuesError {
        QueuesError::Missing { key: self.key.into(), place: self.lines.queue(self.key), setting }
    }

    fn wrong(&self, setting: &'static str, value: &Value, range: &str) -> QueuesError {
        QueuesError::Value {
            key: self.key.into(),
            place: self.lines.setting(self.key, setting),
            setting,
            value: shown(value),
            range: range.into(),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Sequence(_)
        | Value::Mapping(_)
        | Value::Tagged(_) => serde_yaml::to_string(value).unwrap_or_default().trim().to_owned(),
    }
}

impl Queue {
    /// The settings that tune kale's loop, each with a sentence on its meaning in taskvisor, which has another loop.
    pub fn explained(&self) -> [(&'static str, String); 3] {
        [
            (
                "num_iterations",
                format!(
                    "kale stays with a queue for {} receives, {} tasks; `kale import` writes them as its `queue_turns` where \
                     the selector draws, so that each queue has its share as in kale",
                    self.num_iterations,
                    self.num_iterations.saturating_mul(self.batch_size)
                ),
            ),
            (
                "batch_size",
                format!(
                    "kale receives up to {} messages and runs them one by one; taskvisor receives those that workers \
                     can soon take, 10 at most",
                    self.batch_size
                ),
            ),
            (
                "long_poll_time_sec",
                format!(
                    "kale's workers wait {} s at one queue; taskvisor waits 20 s at all queues at a time, so a message \
                     never waits for that",
                    self.long_poll_time_sec
                ),
            ),
        ]
    }
}
