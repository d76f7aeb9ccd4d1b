//! The pages, one a file.

pub mod batches;
pub mod config;
pub mod course;
pub mod doctor;
pub mod events;
pub mod failures;
pub mod fleet;
pub mod forensics;
pub mod history;
pub mod job;
pub mod jobs;
pub mod needs;
pub mod overview;
pub mod picture;
pub mod queues;
pub mod recurring;
pub mod rows;
pub mod when;
pub mod workers;
