//! Explains SQLite's errors in words that say who must act.

use rusqlite::ErrorCode;

use broker::Error;

/// Why a call was not applied: an error of the caller, or trouble of the store.
pub(super) enum Trouble {
    /// The call has changed nothing, and the others of its batch go on.
    Mine(Error),
    /// The transaction has to be rolled back.
    Store(rusqlite::Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Mine(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Trouble::Store(error)
    }
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Trouble::Mine(Error::Failed(format!("the store holds a field that cannot be read: {error}")))
    }
}

/// Explains an error of `verb` (e.g. `write to`) on the store in `file`.
pub(super) fn explain(verb: &str, file: &str, error: &rusqlite::Error) -> Error {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("another program has locked it; `fuser {file}` shows which")
        }
        Some(ErrorCode::DiskFull) => "its disk is full; free some space".to_owned(),
        Some(ErrorCode::NotADatabase) => {
            "it is not a SQLite file; give another path, or move the file away".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => format!(
            "it is damaged; stop what uses it, save what is left with `sqlite3 {file} .recover`, or move it away"
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "it must be readable and writable for this user, and so must its directory".to_owned()
        }
        Some(ErrorCode::SystemIoFailure) => "the disk does not read or write; see `dmesg`".to_owned(),
        _ => "this should not happen; please report it".to_owned(),
    };
    let said = format!("cannot {verb} the store {file}: {error}: {hint}");
    if is_of_the_disk(error) { Error::Disk(said) } else { Error::Failed(said) }
}

/// Whether the disk, or another program, refuses for now. Else the request itself is at fault, or what it has found.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::CannotOpen
        )
    )
}
