//! What a terminal shows: widths, colours, tables and trees, and nothing that drives a terminal by accident.

pub(super) mod branch;
pub(super) mod format;
pub(super) mod json;
pub(super) mod screen;
