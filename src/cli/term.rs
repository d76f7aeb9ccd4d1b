//! The room `term`, by the name that the commands use.

pub(super) use ::term::{branch, event, format, json, processes, row, screen};
