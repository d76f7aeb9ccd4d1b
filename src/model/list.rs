//! Lists of jobs: filters, and pages, so that a long list is never held as a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::MaybeTime;
use super::search::{Field, state};
use super::{Class, Cut, JobId, JobRecord, JobState, Millis, QueueName, Search};

/// Which jobs to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// In one of these states, named with commas between them; none = any.
    #[serde(default, rename = "state", with = "words", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "String")]
    pub states: Vec<JobState>,
    /// Only jobs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Only jobs of this class; a `*` in it is any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// With this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Only tracked jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tracked: bool,
    /// Put by this recurring job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurring: Option<String>,
    /// Only jobs of this failure group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// With an id that begins so; they come in the order of their ids then, the greatest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// That ended at this time or later; or, while it has not ended, was put then.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub since: Option<Millis>,
    /// That ended before this time; or, while it has not ended, was put then.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub until: Option<Millis>,
    /// In which each word of this is found. A search looks at 10,000 jobs, the newest of those that match the rest.
    #[serde(default, rename = "q", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub search: Option<Search>,
    /// Limit of the jobs; 0 = all.
    #[serde(default = "Filter::usual_limit")]
    pub limit: u32,
    /// Older than this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<JobId>,
    /// Each with its data and its history, if the broker reads them with the rest. One that comes without data comes without
    /// history, too.
    #[serde(skip)]
    pub whole: bool,
}

impl Filter {
    /// The number of jobs in a list by default.
    pub fn usual_limit() -> u32 {
        100
    }

    /// The same without the search, but with those words of it for which a broker may have an index. A word that
    /// contradicts the filter is left to [`Search::finds`].
    #[must_use]
    pub fn narrowed(&self) -> Filter {
        let mut filter = Filter { search: None, ..self.clone() };
        for (field, word) in self.search.iter().flat_map(Search::whole) {
            match field {
                Field::Queue if filter.queue.is_none() => filter.queue = Some(word.into()),
                Field::Tag if filter.tag.is_none() => filter.tag = Some(word.into()),
                Field::Group if filter.group.is_none() => filter.group = Some(word.into()),
                Field::State if filter.states.is_empty() => filter.states.extend(state(word)),
                // The rest have no index: a broker would look at all jobs for a class that has none, and a search is cut
                // after 10,000.
                Field::Id
                | Field::Class
                | Field::Queue
                | Field::Tag
                | Field::Group
                | Field::Error
                | Field::Named
                | Field::State => {}
            }
        }
        filter
    }
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            states: Vec::new(),
            queue: None,
            class: None,
            tag: None,
            tracked: false,
            recurring: None,
            group: None,
            id_prefix: None,
            since: None,
            until: None,
            search: None,
            limit: Filter::usual_limit(),
            after: None,
            whole: false,
        }
    }
}

/// A page of a list of jobs: the part that a broker reads in one go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The matching jobs, newest first; perhaps none.
    pub jobs: Vec<JobRecord>,
    /// Where the next page begins; `None` at the end of the list.
    pub next: Option<Cursor>,
    /// At the end of a search: where it was cut.
    pub cut: Option<Cut>,
}

/// The place at which a list goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// A number whose meaning only the broker knows.
    pub place: i64,
    /// The last id that was looked at, in a list ordered by id; with RQ the queue where it goes on.
    pub id: Option<JobId>,
    /// With RQ the last row that was looked at there, in the words of its script; empty = none.
    pub row: Vec<u8>,
    /// How many jobs may still follow.
    pub left: u64,
    /// In a search, how far it is; brokers do not see it.
    pub searched: Searched,
}

/// How far a search is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// How many jobs were found.
    pub found: u64,
    /// How many were looked at.
    pub looked: u32,
    /// Those that were found by the beginning of their ids.
    pub by_id: Vec<JobId>,
    /// How many bytes the found ones have: see [`super::JobRecord::bytes`].
    pub bytes: usize,
}

/// A list as one word with commas, as in a query.
pub(super) mod words {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(list: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&list.iter().map(T::to_string).collect::<Vec<_>>().join(","))
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(|word| word.parse().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_indexed_fields_narrow_the_filter() {
        let search = Some("tag:batch:night queue:mail state:Failed group:* late".parse().unwrap());
        let wanted = Filter {
            tag: Some("batch:night".into()),
            queue: Some("mail".into()),
            states: vec![JobState::Failed],
            ..Filter::default()
        };
        assert_eq!(Filter { search: search.clone(), ..Filter::default() }.narrowed(), wanted);
        let other = Filter { tag: Some("eu".into()), search, ..Filter::default() };
        assert_eq!(other.narrowed().tag.as_deref(), Some("eu"), "both are looked for");
    }
}
