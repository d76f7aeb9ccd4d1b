//! From which queue the next job comes: pure, shared by the supervisor, the brokers and the simulation.

mod rotation;
mod turns;

pub use rotation::Rotation;
pub use turns::Turns;
