//! Output for a terminal: widths, colours, tables and trees, and no unintended control codes.

pub(super) mod branch;
pub(super) mod format;
pub(super) mod json;
pub(super) mod screen;
