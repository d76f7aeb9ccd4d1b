//! Tasks in the form of QuantumLeap's work queue: ids that name their owner, a status, and what is shown of them. Pure:
//! it only converts values.

#![warn(unreachable_pub)]

mod id;
mod notification;
mod settings;
mod task;
mod telemetry;
mod time_index;

pub use id::{Scope, TaskId};
pub use notification::{Taken, TaskInput, entities};
pub use settings::{Settings, WhenAway};
pub use task::{AskedStatus, Task, TaskRuntime, TaskStatus};
pub use telemetry::{Sample, Sheet};
