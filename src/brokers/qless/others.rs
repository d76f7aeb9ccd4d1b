//! Options of qless that have a meaning in Redis only, with the names and units of qless, and options that other
//! programs have set.

use std::collections::BTreeMap;

use broker::Error;
use model::QueueName;
use model::verb::OptionShown;

/// An option of qless; its default is a number.
pub(super) struct Other {
    name: &'static str,
    default: &'static str,
    is_of_queues: bool,
    does: &'static str,
}

const KNOWN: [Other; 5] = [
    Other {
        name: "heartbeat",
        default: "60",
        is_of_queues: true,
        does: "how long clients of qless lease a job, in seconds; here the setting lease says it",
    },
    Other {
        name: "histogram-history",
        default: "7",
        is_of_queues: false,
        does: "days; clients of qless show it, and nothing obeys it",
    },
    Other {
        name: "max-job-history",
        default: "100",
        is_of_queues: false,
        does: "how many entries a job's history of qless has; 0 = any number",
    },
    Other {
        name: "max-worker-age",
        default: "86400",
        is_of_queues: false,
        does: "after how many silent seconds a worker or supervisor is forgotten",
    },
    Other {
        name: "stats-history",
        default: "30",
        is_of_queues: false,
        does: "for how many days the figures of a day are kept; 0 = for ever",
    },
];

/// An option of qless by its name.
pub(super) fn find(name: &str) -> Option<&'static Other> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The names of these options, in words.
pub(super) fn names() -> String {
    KNOWN.map(|known| known.name).join(", ")
}

/// The key of an option of a queue, or of all queues.
pub(super) fn key(queue: Option<&QueueName>, name: &str) -> String {
    queue.map_or_else(|| name.to_owned(), |queue| format!("{queue}-{name}"))
}

impl Other {
    /// The name and the value in Redis for a setting by a person.
    pub(super) fn set(&self, queue: Option<&QueueName>, value: &str) -> Result<(String, String), Error> {
        let Other { name, default, is_of_queues, .. } = self;
        if queue.is_some() && !is_of_queues {
            return Err(Error::Refused(format!("option {name} is for all queues, not for one")));
        }
        if !value.parse().is_ok_and(|value: f64| value.is_finite() && value >= 0.0) {
            return Err(Error::Refused(format!("option {name}: '{value}' is no number like {default}")));
        }
        Ok((key(queue, name), value.to_owned()))
    }

    fn shown(&self, queue: Option<QueueName>, value: Option<&String>) -> OptionShown {
        OptionShown {
            name: self.name.into(),
            queue,
            value: value.map_or(self.default, |value| value).into(),
            is_set: value.is_some(),
            does: self.does.into(),
        }
    }
}

/// The options of qless, and others that are `set`.
pub(super) fn shown(set: &BTreeMap<String, String>) -> Vec<OptionShown> {
    let of_all = KNOWN.iter().map(|known| known.shown(None, set.get(known.name)));
    let others = set.iter().filter(|(key, _)| find(key).is_none()).map(|(key, value)| {
        let of_queue = KNOWN.iter().filter(|known| known.is_of_queues).find_map(|known| {
            // A queue's name may have hyphens, too: only the known names tell where it ends.
            let queue = key.strip_suffix(known.name)?.strip_suffix('-').filter(|queue| !queue.is_empty())?;
            Some(known.shown(Some(queue.into()), Some(value)))
        });
        of_queue.unwrap_or_else(|| OptionShown {
            name: key.clone(),
            queue: None,
            value: value.clone(),
            is_set: true,
            does: "another program's".into(),
        })
    });
    of_all.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qless_options_and_unknown_keys_are_shown() {
        let pairs = [("heartbeat", "30"), ("night-mail-heartbeat", "5"), ("colour", "red")];
        let set = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let shown = shown(&set);
        let is_set = shown.iter().filter(|one| one.is_set);
        let is_set: Vec<_> =
            is_set.map(|one| (key(one.queue.as_ref(), &one.name), one.value.clone())).collect();
        let all: BTreeMap<String, String> = is_set.into_iter().collect();
        assert_eq!(all, set);
        assert!(shown.iter().any(|one| one.queue == Some("night-mail".into()) && one.name == "heartbeat"));
        assert_eq!(shown.len(), KNOWN.len() + 2);
    }

    #[test]
    fn invalid_values_and_wrong_scopes_of_qless_options_are_refused() {
        let refused = |name: &str, queue: Option<&str>, value: &str| {
            let queue = queue.map(QueueName::from);
            find(name).expect("known").set(queue.as_ref(), value).unwrap_err().to_string()
        };
        assert_eq!(refused("heartbeat", None, "1m"), "option heartbeat: '1m' is no number like 60");
        assert_eq!(refused("heartbeat", None, "-1"), "option heartbeat: '-1' is no number like 60");
        assert_eq!(
            refused("stats-history", Some("q"), "1"),
            "option stats-history is for all queues, not for one"
        );
    }
}
