//! How single fields are written in the public JSON: durations, moments, modes of files, JSON within JSON.

mod numbers;
mod texts;
mod times;

pub(super) use numbers::{MaybeSeconds, Octal, Seconds};
pub(super) use texts::{DEEPEST, JsonText, bytes, json};
pub use texts::{json_depth, json_text};
pub(super) use times::{
    At, BeginBy, DueAt, EndedAt, ExpiresAt, FromTime, MaybeTime, MissedAt, NewestAt, NextAt, Now,
    OldestWaitingAt, PutAt, RenewedAt, SeenAt, Since, StartedAt, ThenAt,
};
