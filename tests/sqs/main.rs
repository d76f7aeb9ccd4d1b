//! The fake of Amazon SQS: it and moto pass the same checks, its fault knobs work; and supervisors on it.
#![allow(clippy::unwrap_used)]

#[path = "../support/python.rs"]
mod python;
#[path = "../support/replay.rs"]
mod replay;
#[path = "../support/sandbox.rs"]
mod sandbox;
#[path = "../support/sqs/mod.rs"]
mod sqs;

mod bad_days;
mod beside_moto;
mod deaths;
mod denied;
mod jobs;
mod kale;
mod order;
mod redrive;
mod refusals;
mod releases;
mod retry;
mod simulated;
mod stops;
mod waits;
