//! Jobs in Redis, in the keys of qless.

pub mod script;
