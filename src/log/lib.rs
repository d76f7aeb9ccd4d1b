//! Logs: the supervisor's own, and the output of jobs and slots. Each has a thread, so that a slow disk or a reader
//! that has stopped delays no one.

#![warn(unreachable_pub)]

mod index;
mod journal;
mod journal_socket;
mod lines;
mod output_retention;
mod outputs;
mod own;
mod private;
mod rank;
mod reader;
mod rotated;
mod start;
mod target;
mod value;
mod way;
mod writer;

pub use index::{Mark, Source};
pub use lines::Places;
pub use outputs::Outputs;
pub use own::OwnLog;
pub use private::write_private;
pub use rank::WORKER_LINES;
pub use reader::{LastLines, Part, Reader, Selection, removed_since};
pub use start::{check, is_on_stderr, is_read_here, start};
