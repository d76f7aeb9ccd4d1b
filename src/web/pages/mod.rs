//! The pages, one a file.

pub(crate) mod batches;
pub(crate) mod config;
pub(crate) mod course;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod fleet;
pub(crate) mod forensics;
pub(crate) mod history;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod needs;
pub(crate) mod overview;
pub(crate) mod picture;
pub(crate) mod queues;
pub(crate) mod recurring;
pub(crate) mod rows;
pub(crate) mod when;
pub(crate) mod workers;
