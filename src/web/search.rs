//! The search line of the list of jobs, which is also its URL.

use model::{Filter, JobState, Millis, parse_duration};

use crate::json::Redact;

/// A search line that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Search {
    /// The jobs it selects.
    pub filter: Filter,
    /// What of it could not be read, in words.
    pub faults: Vec<String>,
}

/// What a search line can hold, for people.
pub(crate) const HELP: &str = "state:failed queue:mail class:mail.* tag:x batch:NAME group:\"exit 1\" error:refused recurring:nightly since:2h until:1h is:tracked id:0199ab, and words of ids, classes, queues, tags, groups, titles and errors";

impl Search {
    /// Reads a search line. What is hidden is not searched: what is found would tell it.
    pub(crate) fn read(line: &str, now: Millis, redact: &Redact) -> Search {
        let (mut search, mut loose) = (Search::default(), Vec::new());
        for word in words(line) {
            if let Err(fault) = search.add(&word, now, redact, &mut loose) {
                search.faults.push(fault);
            }
        }
        match loose.join(" ").parse() {
            Ok(_) if loose.is_empty() => {}
            Ok(found) => search.filter.search = Some(found),
            Err(fault) => search.faults.push(fault),
        }
        search
    }

    /// Takes one word; those for the broker's own search go to `loose`.
    fn add(
        &mut self,
        word: &str,
        now: Millis,
        redact: &Redact,
        loose: &mut Vec<String>,
    ) -> Result<(), String> {
        let filter = &mut self.filter;
        // Other words have colons, too: `12:30`, `a::B`.
        let Some((name, value)) = word.split_once(':').filter(|(name, _)| NAMES.contains(name)) else {
            // A title has the beginning of the data, and an error what a program said.
            loose.push(if redact.hides_some() { self::word("named", word) } else { format!("\"{word}\"") });
            return Ok(());
        };
        match name {
            "error" if redact.all => return Err("errors are hidden here, and so are not searched".into()),
            "error" => loose.push(self::word(name, value)),
            "state" => {
                for state in value.split(',') {
                    filter.states.push(state.parse::<JobState>()?);
                }
            }
            "queue" => filter.queue = Some(value.into()),
            "class" => filter.class = Some(value.into()),
            "tag" => filter.tag = Some(value.into()),
            "batch" => filter.tag = Some(format!("batch:{value}")),
            "group" => filter.group = Some(value.into()),
            "recurring" => filter.recurring = Some(value.into()),
            "since" => filter.since = Some(time(value, now)?),
            "until" => filter.until = Some(time(value, now)?),
            "id" => filter.id_prefix = Some(value.into()),
            _ if value == "tracked" => filter.tracked = true,
            _ => return Err(format!("'{word}' says nothing: is:tracked are the jobs that somebody follows")),
        }
        Ok(())
    }
}

const NAMES: [&str; 12] =
    ["state", "queue", "class", "tag", "batch", "group", "recurring", "since", "until", "id", "is", "error"];

/// A time, or how long ago it was.
fn time(text: &str, now: Millis) -> Result<Millis, String> {
    match parse_duration(text) {
        // Nothing is older than 1970.
        Ok(ago) => {
            Ok(Millis(now.0.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)).max(0)))
        }
        Err(_) => text.parse().map_err(|why| format!("{why}; or a duration as 2h")),
    }
}

/// The words of a line; quotes keep blanks together.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut in_quotes) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '"' => in_quotes = !in_quotes,
            _ if letter.is_whitespace() && !in_quotes => all.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// A word of a search line: the name with its value, quoted if it has blanks.
pub(crate) fn word(name: &str, value: &str) -> String {
    match value.is_empty() || value.contains(char::is_whitespace) {
        true => format!("{name}:\"{value}\""),
        false => format!("{name}:{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_line_selects_by_everything_that_it_names() {
        let now = Millis(10_000_000);
        let read = |line: &str| Search::read(line, now, &Redact::default());
        let search = read(
            "state:failed,held queue:mail class:a.B tag:x group:\"exit 1\" since:2h is:tracked id:0199ab night \"by peer\"",
        );
        let filter = Filter {
            states: vec![JobState::Failed, JobState::Held],
            queue: Some("mail".into()),
            class: Some("a.B".into()),
            tag: Some("x".into()),
            group: Some("exit 1".into()),
            since: Some(Millis(2_800_000)),
            tracked: true,
            id_prefix: Some("0199ab".into()),
            search: Some("\"night\" \"by peer\"".parse().unwrap()),
            ..Filter::default()
        };
        assert_eq!(search, Search { filter, faults: vec![] });
        assert_eq!(read("since:99999999999d").filter.since, Some(Millis(0)));
        assert_eq!(read("batch:a").filter.tag.as_deref(), Some("batch:a"));
        assert_eq!(read(&word("group", "exit 1")).filter.group.as_deref(), Some("exit 1"));
    }

    #[test]
    fn what_cannot_be_read_is_said_and_the_rest_is_searched_for() {
        let search = Search::read("state:nosuch queue:mail since:soon is:x", Millis(0), &Redact::default());
        assert_eq!(
            (search.faults.len(), search.filter.queue),
            (3, Some("mail".into())),
            "{:?}",
            search.faults
        );
    }

    #[test]
    fn what_is_hidden_is_not_searched() {
        let asked = |line: &str, redact: &Redact| {
            let Search { filter, faults } = Search::read(line, Millis(0), redact);
            (filter.search.map(|search| search.to_string()), faults.len())
        };
        let some = Redact { names: vec!["password".into()], all: false };
        let all = Redact { names: vec![], all: true };
        assert_eq!(asked("canary", &some), (Some("named:canary".into()), 0));
        assert_eq!(asked("error:canary", &some), (Some("error:canary".into()), 0));
        assert_eq!(asked("\"a canary\"", &all), (Some("named:\"a canary\"".into()), 0));
        assert_eq!(asked("error:canary", &all), (None, 1));
        // The names of fields of the broker's own search are no way around.
        assert_eq!(
            asked("title:canary named:x", &all).0.as_deref(),
            Some("named:title:canary named:named:x")
        );
    }
}
