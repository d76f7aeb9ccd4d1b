//! What people type to find jobs: words, each of which must be found in a job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Class, JobRecord, JobState};

/// A search for jobs. Each word must be found: in the beginning of the id, in class, queue, a tag, the title of a list, the
/// failure group or the text of the error. `class:mail.*`, `queue:`, `tag:`, `id:`, `group:`, `error:` and `state:` look
/// there alone; a `*` is any text, and without one these words are whole but for `error:` and the beginning of `id:`.
/// `named:` is a word without a field that is looked for in names alone, and not in what a job carries or says: it leaves
/// out titles and errors. Quotes hold words together. Case does not count but in a whole `class:`, `queue:`, `tag:` or
/// `group:`: these are names as in the flags of a list, and brokers know names only as they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Search {
    text: String,
    terms: Vec<Term>,
}

/// Where a search or a list was cut before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The job at which it ended: it goes on after this one.
    pub after: super::JobId,
    /// How many jobs were looked at.
    pub looked: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: Option<Field>,
    /// As it was typed, without its field.
    word: String,
    pattern: Pattern,
}

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// In the id.
    Id,
    /// In the class.
    Class,
    /// In the name of the queue.
    Queue,
    /// In each tag.
    Tag,
    /// In the name of the failure group.
    Group,
    /// In the message of the failure.
    Error,
    /// In the state.
    State,
    /// In id, class, queue, tag or group.
    Named,
}

const FIELDS: [(&str, Field); 8] = [
    ("named", Field::Named),
    ("id", Field::Id),
    ("class", Field::Class),
    ("queue", Field::Queue),
    ("tag", Field::Tag),
    ("group", Field::Group),
    ("error", Field::Error),
    ("state", Field::State),
];

/// The fields with names, which no job's data or program has said.
const NAMES: [Field; 5] = [Field::Id, Field::Class, Field::Queue, Field::Tag, Field::Group];

impl Search {
    /// Longest text of a search, in bytes.
    pub const LONGEST: usize = 1_000;
    /// Limit of the jobs that one search looks at; the rest is for the next one, behind them.
    pub const ROWS: u32 = 10_000;

    /// The whole words of fields for which a broker may have an index, with their fields.
    pub fn whole(&self) -> impl Iterator<Item = (Field, &str)> {
        let whole = self.terms.iter().filter(|term| term.is_whole());
        whole.filter_map(|term| Some((term.field?, term.word.as_str())))
    }

    /// The beginning of an id, if the search is nothing else: one is typed or pasted more often than all the rest.
    pub fn as_id(&self) -> Option<&str> {
        const SHORTEST: usize = 6;
        let [Term { field: field @ (None | Some(Field::Id | Field::Named)), word, .. }] =
            self.terms.as_slice()
        else {
            return None;
        };
        // An id of ours has digits among its first letters; a word without any is rather a class or a tag.
        let is_one = *field == Some(Field::Id) || word.contains(|letter: char| letter.is_ascii_digit());
        let is_id = word.len() >= SHORTEST && !word.contains('*') && is_one;
        is_id.then_some(word.as_str())
    }

    /// Whether all words are found in a job.
    pub fn finds(&self, job: &JobRecord) -> bool {
        self.terms.iter().all(|term| term.finds(job))
    }
}

impl Term {
    fn is_whole(&self) -> bool {
        !self.word.contains('*')
    }

    fn finds(&self, job: &JobRecord) -> bool {
        let Some(field) = self.field else {
            // Not the state: `failed` would find every failed job, where somebody looks for the word in a message.
            let title = job.title.as_deref().is_some_and(|title| self.pattern.is_in(title));
            return title || self.finds_in(Field::Named, job) || self.finds_in(Field::Error, job);
        };
        self.finds_in(field, job)
    }

    fn finds_in(&self, field: Field, job: &JobRecord) -> bool {
        let whole = |text: &str| match self.field {
            None | Some(Field::Named) => self.pattern.is_in(text),
            Some(Field::Class | Field::Queue | Field::Tag | Field::Group) if self.is_whole() => {
                self.word == text
            }
            Some(_) => self.pattern.is(text),
        };
        match field {
            Field::Named => NAMES.into_iter().any(|field| self.finds_in(field, job)),
            Field::Id => self.pattern.begins(job.id.as_str()),
            Field::Class => whole(job.class.as_str()),
            Field::Queue => whole(job.queue.as_str()),
            Field::Tag => job.tags.iter().any(|tag| whole(tag)),
            Field::Group => job.failure.as_ref().is_some_and(|failure| whole(&failure.group)),
            Field::Error => job.failure.as_ref().is_some_and(|failure| self.pattern.is_in(&failure.message)),
            Field::State => whole(job.state.as_str()),
        }
    }
}

/// A class of a filter: a `*` in it is any text.
pub fn matches_class(pattern: &Class, class: &Class) -> bool {
    Pattern::of(pattern.as_str()).is(class.as_str())
}

/// A text in which `*` is any text: what stands between the stars, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<String>);

impl Pattern {
    fn of(word: &str) -> Pattern {
        Pattern(word.to_lowercase().split('*').map(str::to_owned).collect())
    }

    /// Whether it is the whole text.
    fn is(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let (first, last) = match self.0.as_slice() {
            [] => return text.is_empty(),
            [only] => return *only == text,
            [first, .., last] => (first, last),
        };
        let Some(rest) = text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()))
        else {
            return false;
        };
        in_order(rest, &self.0[1..self.0.len() - 1])
    }

    /// Whether the text begins so.
    fn begins(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let Some((first, others)) = self.0.split_first() else { return true };
        text.strip_prefix(first.as_str()).is_some_and(|rest| in_order(rest, others))
    }

    /// Whether the text has it somewhere.
    fn is_in(&self, text: &str) -> bool {
        in_order(&text.to_lowercase(), &self.0)
    }
}

/// Whether the text has all parts, one after the other. The first place of each leaves the most room for the next.
fn in_order(text: &str, parts: &[String]) -> bool {
    let mut rest = Some(text);
    for part in parts {
        rest = rest.and_then(|rest| rest.find(part.as_str()).map(|at| &rest[at + part.len()..]));
    }
    rest.is_some()
}

/// The state that is called so.
pub(super) fn state(word: &str) -> Option<JobState> {
    word.to_lowercase().parse().ok()
}

impl FromStr for Search {
    type Err = String;

    fn from_str(text: &str) -> Result<Search, String> {
        if text.len() > Search::LONGEST {
            return Err(format!("a search has {} bytes at most", Search::LONGEST));
        }
        let terms: Vec<Term> = words(text).into_iter().map(term).collect();
        let wrong = terms
            .iter()
            .find(|term| term.field == Some(Field::State) && term.is_whole() && state(&term.word).is_none());
        if let Some(term) = wrong {
            let known: Vec<&str> = JobState::ALL.iter().map(|state| state.as_str()).collect();
            return Err(format!("no job can be '{}': the states are {}", term.word, known.join(", ")));
        }
        Ok(Search { text: text.to_owned(), terms })
    }
}

/// The words between spaces; quotes hold words together.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            space if space.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn term(word: String) -> Term {
    // A word may have a colon of its own, as the tag `batch:night` has.
    let of_field = word.split_once(':').and_then(|(name, rest)| {
        let (_, field) = FIELDS.iter().find(|(known, _)| *known == name)?;
        (!rest.is_empty()).then(|| (*field, rest.to_owned()))
    });
    let (field, word) = match of_field {
        Some((field, rest)) => (Some(field), rest),
        None => (None, word),
    };
    Term { field, pattern: Pattern::of(&word), word }
}

impl TryFrom<String> for Search {
    type Error = String;

    fn try_from(text: String) -> Result<Search, String> {
        text.parse()
    }
}

impl From<Search> for String {
    fn from(search: Search) -> String {
        search.text
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job() -> JobRecord {
        serde_json::from_value(json!({
            "id": "0199AB-7", "queue": "mail", "class": "mail.Send", "state": "failed", "priority": 0,
            "tags": ["batch:night", "eu"], "attempt": 1, "crashes": 0, "interruptions": 0, "put_at_ms": 1, "fence": 0,
            "failure": { "group": "timeout", "message": "Connection refused by 10.0.0.1" },
        }))
        .unwrap()
    }

    #[test]
    fn each_word_is_found_in_a_field_that_people_see() {
        let finds = |text: &str| text.parse::<Search>().unwrap().finds(&job());
        for text in [
            "",
            "0199ab",
            "send",
            "mail eu",
            "REFUSED",
            "\"connection refused\"",
            "mail.*",
            "*.Send",
            "m*s*d",
            "class:mail.*",
            "class:mail.Send",
            "class:MAIL.S*",
            "queue:mail",
            "tag:eu",
            "tag:batch:*",
            "queue:MAI*l tag:EU* group:TIME*",
            "class:mail.Send state:FAILED EU",
            "id:0199*7",
            "error:refused",
            "error:conn*by",
            "group:timeout",
            "state:failed",
            "night timeout",
            "batch:night",
            "named:send named:0199 named:night named:time",
        ] {
            assert!(finds(text), "{text}");
        }
        for text in [
            "99ab",
            "refused connection2",
            "\"refused connection\"",
            "class:send",
            "class:mail",
            "class:mail.send",
            "queue:Mail",
            "tag:EU",
            "group:Timeout",
            "tag:e",
            "queue:eu",
            "error:timeout",
            "state:complete",
            "mail zz",
            "group:time",
            "d*n*m",
            "named:refused",
        ] {
            assert!(!finds(text), "{text}");
        }
    }

    #[test]
    fn an_id_and_a_wrong_state_are_known_as_such() {
        let id = |text: &str| text.parse::<Search>().unwrap().as_id().map(str::to_owned);
        assert_eq!(id("0199aa").as_deref(), Some("0199aa"));
        assert_eq!(id("id:0199aa").as_deref(), Some("0199aa"));
        assert_eq!((id("timeout"), id("0199aa x"), id("class:0199aa")), (None, None, None));
        assert!(
            "state:lost"
                .parse::<Search>()
                .unwrap_err()
                .starts_with("no job can be 'lost': the states are waiting")
        );
    }
}
