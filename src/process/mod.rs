//! The supervisor's hands: it talks to the keeper and to the children, and knows pids. Decides nothing.

mod children;
mod link;
mod logs;
mod output;
mod program;
pub mod usage;
mod watched;

pub use children::{Children, Remains};
pub use link::{Letter, Link};
pub use logs::{LogFile, Logs};
