//! Tasks as QuantumLeap's work queue knows them: ids that say whose a task is, its status, and what is shown of it. Pure:
//! it reads and writes values, and asks nobody.

mod id;
mod notification;
mod settings;
mod task;
mod telemetry;

pub use id::{Scope, TaskId};
pub use notification::{Taken, TaskInput, entities};
pub use settings::{Settings, WhenAway};
pub use task::{Task, TaskRuntime, TaskStatus};
pub use telemetry::{Sample, Sheet};
