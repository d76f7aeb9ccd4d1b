//! The fake of Amazon SQS: it and moto pass the same checks, and its bad days are what they are called.

#[path = "../support/missing.rs"]
mod missing;
#[path = "../support/sqs/mod.rs"]
mod sqs;

mod bad_days;
mod beside_moto;
