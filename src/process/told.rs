//! What a worker says of its application, for people.

use std::borrow::Cow;

/// Longest warning, in characters.
const LONGEST_WARNING: usize = 8000;
/// Limit of the preloaded modules that are kept, and of the characters of a name.
const MOST_MODULES: usize = 200;
const LONGEST_NAME: usize = 200;

/// The words of a life, for `status`.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The latest warning about its application; several lines.
    pub warning: Option<String>,
    /// The modules that a template has imported for all jobs to come.
    pub preloaded: Vec<String>,
}

impl Told {
    /// Keeps a warning; true if it is the first.
    pub(super) fn warn(&mut self, text: &str) -> bool {
        self.warning.replace(text.chars().take(LONGEST_WARNING).collect()).is_none()
    }

    /// Keeps the names of all modules that were preloaded.
    pub(super) fn preload(&mut self, modules: &[Cow<'_, str>]) {
        let names = modules.iter().take(MOST_MODULES);
        self.preloaded = names.map(|name| name.chars().take(LONGEST_NAME).collect()).collect();
    }
}
