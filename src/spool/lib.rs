//! The spool: members of `socket_group` leave their puts in it while no supervisor listens, and the next one takes them.
//!
//! It is a directory in the state directory, of the supervisor's user and of the group, with mode 1730: members make files
//! there, list nothing, and touch no file of another (it is sticky). A put is one file, called after its user. Its owner,
//! whom the kernel knows, is who put it; and its owner alone can set the mode 1644, which says that it is complete and
//! meant as a put. So no file that is half written is taken, nor one of somebody else that was moved there.

#![warn(unreachable_pub)]

mod leave;
mod take;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use leave::Spool;
pub use take::{Desk, Fault, Left, Look};

use model::{NewJob, batch};

/// The mode of the directory: of the supervisor's user, and for members to make files in.
const DIR_MODE: u32 = 0o1730;
/// The mode of a put that is complete. The sticky bit means nothing on a file, so that no program sets it by chance. All
/// may read it, so that a supervisor of any group can: only members pass through the directory.
const MARK: u32 = 0o1644;
/// Limit of the waiting puts of one user; a further one is refused.
const PUTS: u32 = 10_000;
/// Limit of the bytes of a put, as over the API.
const BYTES: u64 = 96 << 20;

/// The directory, in a state directory; in a run directory a link to it.
pub fn dir_in(dir: &Path) -> PathBuf {
    dir.join("spool")
}

/// What is in a file: the body of `POST /v1/jobs`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(deserialize_with = "batch")]
    jobs: Vec<NewJob>,
}

/// The name of a put: its user, and its number among those of that user.
fn name_of(uid: u32, number: u32) -> String {
    format!("{uid}.{number}")
}

/// The user in the name of a put; None if it is no such name.
fn uid_in(name: &str) -> Option<u32> {
    let (uid, number) = name.split_once('.')?;
    let (uid, number) = (uid.parse().ok()?, number.parse().ok()?);
    (number < PUTS && name_of(uid, number) == name).then_some(uid)
}

#[cfg(test)]
mod tests;
