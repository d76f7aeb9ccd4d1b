//! Names of things. A worker is named by its slot and its life there, never by a pid.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name that people are shown whole, in bytes: none that is put here is longer.
const SHOWN: usize = 256;

/// A numbered place of a pool in which one worker lives at a time: what supervisor and keeper call it. People are shown the
/// [`SlotName`](super::SlotName), because a pool gets another number with each recycle.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct SlotId {
    /// The pool's number, starting at 0. An heir has a number of its own, and the number of a pool that is gone is used again.
    pub pool: u16,
    /// The place within the pool, starting at 1; 0 is that of its template.
    pub index: u16,
}

/// One life in a slot: the identity of a worker for supervisor and keeper. People are shown the
/// [`WorkerName`](super::WorkerName).
///
/// ```
/// use taskvisor_model::{SlotId, WorkerId};
/// let worker = WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 7 };
/// assert_eq!(worker.to_string(), "1.7");
/// assert_eq!(WorkerId::from_u64(worker.to_u64()), worker);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct WorkerId {
    /// The slot it lives in.
    pub slot: SlotId,
    /// Generation of the life in that slot. Never used twice while one keeper lives.
    pub generation: u32,
}

impl WorkerId {
    /// The life that comes after this one in its slot.
    pub fn next(self) -> Self {
        WorkerId { generation: self.generation.wrapping_add(1), ..self }
    }

    /// The id in one word, for the keeper's frames.
    pub fn to_u64(self) -> u64 {
        u64::from(self.slot.pool) << 48 | u64::from(self.slot.index) << 32 | u64::from(self.generation)
    }

    /// The inverse of [`WorkerId::to_u64`].
    pub fn from_u64(word: u64) -> Self {
        let slot = SlotId { pool: (word >> 48) as u16, index: (word >> 32) as u16 };
        WorkerId { slot, generation: word as u32 }
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pool {
            0 => write!(f, "{}", self.index),
            pool => write!(f, "{}:{}", pool, self.index),
        }
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

impl FromStr for WorkerId {
    type Err = ();

    /// Reads what `Display` writes: `1.7` (pool 0, slot 1, life 7) or `2:1.7` (pool 2).
    fn from_str(text: &str) -> Result<Self, ()> {
        let (slot, generation) = text.rsplit_once('.').ok_or(())?;
        let (pool, index) = slot.split_once(':').unwrap_or(("0", slot));
        let slot = SlotId { pool: pool.parse().map_err(drop)?, index: index.parse().map_err(drop)? };
        Ok(WorkerId { slot, generation: generation.parse().map_err(drop)? })
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The name for people, in a log or on a screen: cut where another client has made it longer than ours may be.
            pub fn shown(&self) -> Cow<'_, str> {
                let end = self.0.floor_char_boundary(SHOWN);
                let more = self.0.len() - end;
                if more == 0 { self.as_str().into() } else { format!("{}… ({more} bytes more)", &self.0[..end]).into() }
            }
        }

        impl From<&str> for $type {
            fn from(text: &str) -> Self {
                $type(text.into())
            }
        }

        impl From<String> for $type {
            fn from(text: String) -> Self {
                $type(text.into())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // `pad` obeys the width of a format, which `write_str` does not.
                f.pad(&self.0)
            }
        }
    };
}

name!(
    /// A job's id (jid): unique in a broker; 32 hex digits when we make it.
    JobId
);
name!(
    /// The name of a queue.
    QueueName
);
name!(
    /// What kind of job it is (qless's `klass`): the name a worker looks its code up by. Programs put by `put -- …` have [`Class::EXEC`].
    Class
);
name!(
    /// One state directory, and so one supervisor at a time: the owner of leases.
    Instance
);

impl Class {
    /// The class of a job that is a program with arguments.
    pub const EXEC: &'static str = "exec";
}

/// The token that proves a lease: a new one for each assignment of a job, ascending within the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_another_client_made_too_long_is_cut_for_people() {
        assert_eq!(JobId::from("7").shown(), "7");
        let long = JobId::from("é".repeat(64 << 10));
        assert_eq!(long.shown(), format!("{}… (130816 bytes more)", "é".repeat(128)));
    }
}
