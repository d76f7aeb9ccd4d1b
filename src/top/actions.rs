//! What keys do, by name.

use crate::screen::decode::Key;

/// Something that a key does.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// The key that does it.
    pub key: char,
    /// What it does.
    pub does: &'static str,
    /// Whether it changes something: then it asks first, and a screen that may only look refuses it.
    pub changes: bool,
}

impl Action {
    /// The key by its name.
    pub fn key_name(&self) -> String {
        match self.key {
            ' ' => "space".into(),
            '\r' => "Enter".into(),
            key => key.to_string(),
        }
    }

    /// The key as it is typed.
    pub fn key(&self) -> Key {
        if self.key == '\r' { Key::Enter } else { Key::Char(self.key) }
    }
}

const fn action(key: char, does: &'static str) -> Action {
    Action { key, does, changes: false }
}

const fn order(key: char, does: &'static str) -> Action {
    Action { key, does, changes: true }
}

const ACTIONS: [Action; 33] = [
    action('1', "slots"),
    action('2', "queues"),
    action('3', "jobs"),
    action('4', "failures"),
    action('5', "recurring jobs"),
    action('6', "fleet"),
    action('7', "events"),
    action('j', "down"),
    action('k', "up"),
    action('g', "first line"),
    action('G', "last line"),
    action('\r', "page of the selected thing, whole"),
    action('l', "output of the job, as it comes"),
    action('w', "why it is as it is"),
    action('/', "filter; of jobs as job list --search"),
    action(':', "find an action by its name"),
    action('o', "sort by something else"),
    action('t', "tree or flat"),
    action('p', "freeze"),
    action(' ', "mark, for an order about many"),
    action('a', "mark all, or none"),
    action('y', "copy the name, or the command of an order"),
    order('C', "cancel the job"),
    order('K', "kill the worker"),
    order('R', "retry the jobs; run a recurring job now"),
    order('D', "discard the jobs; remove a recurring job"),
    order('P', "pause or resume the pool, queue or recurring job"),
    order('+', "one worker more in the pool"),
    order('-', "one worker fewer in the pool"),
    order('N', "new workers for the pool"),
    action('?', "these keys"),
    action('r', "look now"),
    action('q', "back, or quit"),
];

/// All that keys do.
pub fn actions() -> &'static [Action] {
    &ACTIONS
}

/// The actions whose descriptions contain this text, whatever its case; those that begin with it come first.
pub fn fitting(text: &str) -> Vec<&'static Action> {
    let text = text.trim().to_lowercase();
    let begins = |action: &&Action| action.does.starts_with(&text);
    let has = |action: &&Action| !begins(action) && action.does.contains(&text);
    ACTIONS.iter().filter(begins).chain(ACTIONS.iter().filter(has)).collect()
}
