//! Output for a terminal or a pipe: widths, colours, tables and trees, and no unintended control codes. What the commands
//! print and what the live screen shows is said in the same words here.

#![warn(unreachable_pub)]

pub mod branch;
pub mod event;
pub mod format;
pub mod json;
pub mod processes;
pub mod row;
pub mod screen;
