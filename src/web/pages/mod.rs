//! The pages, one a file.

pub mod failures;
pub mod forensics;
pub mod job;
pub mod jobs;
pub mod overview;
pub mod rows;
