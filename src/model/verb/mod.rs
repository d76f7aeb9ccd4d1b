//! Verbs: requests of people about jobs. Each verb is a type with its own answer and a line in the table. The table
//! defines the API's routes, the client's requests and the requests to a broker.

mod ability;
mod answers;
mod classes;
mod edits;
mod failed;
mod fleet;
mod jobs;
mod options;
mod queues;
mod recurring;
mod said;
mod table;

pub use ability::Ability;
pub use answers::*;
pub use classes::*;
pub use edits::*;
pub use failed::*;
pub use fleet::*;
pub use jobs::*;
pub use options::*;
pub use queues::*;
pub use recurring::*;
pub use said::Said;
pub use table::{Answer, Route, Verb, VerbRequest, Visitor, visit};
