//! The supervisor's hands: it talks to the keeper and to the children, and knows pids. Decides nothing.

mod about;
mod assign;
mod channel;
mod children;
mod leftovers;
mod life;
mod link;
mod output;
mod plan;
mod program;
mod sandbox;
pub mod usage;
mod watched;

pub use assign::Unassigned;
pub use children::{Children, Remains};
pub use life::{JobEnd, Word};
pub use link::{Letter, Link};
pub use plan::Plan;
