//! The lines of the keys in kale's file of queues, which the parser does not give.

use super::queue_error::{Place, QueuesError};

/// The lines that begin with a key.
pub(super) struct Lines<'a>(Vec<Line<'a>>);

struct Line<'a> {
    number: usize,
    indent: usize,
    key: &'a str,
    /// Whether nothing follows the colon.
    bare: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Lines<'a> {
        let keys = text.lines().enumerate().filter_map(|(index, line)| {
            let rest = line.trim_start();
            let (key, after) = rest.split_once(':')?;
            // In YAML a colon without a blank behind it ends no key.
            let is_key = !rest.starts_with(['#', '-', '{', '['])
                && (after.is_empty() || after.starts_with([' ', '\t']));
            let key = key.trim().trim_matches(['"', '\'']);
            let bare = after.trim().is_empty();
            is_key.then(|| Line { number: index + 1, indent: line.len() - rest.len(), key, bare })
        });
        Lines(keys.collect())
    }

    /// Queues and settings that are given twice. If a queue is among the settings of another, that is given as the
    /// cause.
    pub(super) fn repeated(&self) -> Vec<QueuesError> {
        let twice = self.twice();
        let inner = self
            .0
            .windows(2)
            .filter(|pair| pair[0].indent > 0 && pair[0].bare && pair[1].indent == pair[0].indent);
        let empty = inner.map(|pair| QueuesError::Empty {
            key: pair[0].key.into(),
            place: Place(pair[0].number),
            next: Some(pair[1].number),
        });
        if twice.is_empty() { twice } else { empty.chain(twice).collect() }
    }

    fn twice(&self) -> Vec<QueuesError> {
        let mut mistakes = Vec::new();
        for (at, line) in self.0.iter().enumerate() {
            // A setting is compared only with those of its own queue.
            let own = self.0[..at].iter().rev().take_while(|before| line.indent == 0 || before.indent > 0);
            if let Some(first) =
                own.filter(|before| before.indent == line.indent && before.key == line.key).last()
            {
                mistakes.push(QueuesError::Twice {
                    what: if line.indent == 0 { "queue" } else { "setting" },
                    key: line.key.into(),
                    first: first.number,
                    again: line.number,
                });
            }
        }
        mistakes
    }

    /// The line of a queue's key.
    pub(super) fn queue(&self, key: &str) -> Place {
        Place(self.0.iter().find(|line| line.indent == 0 && line.key == key).map_or(0, |line| line.number))
    }

    /// The line of a setting of a queue, or else that of the queue.
    pub(super) fn setting(&self, queue: &str, setting: &str) -> Place {
        let place = self.queue(queue);
        let below =
            self.0.iter().skip_while(|line| line.number <= place.0).take_while(|line| line.indent > 0);
        below
            .filter(|_| place.0 > 0)
            .find(|line| line.key == setting)
            .map_or(place, |line| Place(line.number))
    }

    /// The line of the next key.
    pub(super) fn next_after(&self, place: Place) -> Option<usize> {
        self.0.iter().map(|line| line.number).find(|number| place.0 > 0 && *number > place.0)
    }
}
