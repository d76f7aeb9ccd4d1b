//! Errors as clients of the API get them.

use api::Problem;
use broker::{Broker, Error, FORGOTTEN};
use model::verb::Ability;

/// The same, with the reason why a job may be unknown: its server was emptied, or does not show a job before it has run.
pub(super) fn hinted(broker: &Broker, error: Error) -> Problem {
    let is_unknown = matches!(error, Error::NoJob(_));
    if is_unknown && let Some(why) = broker.complaints().latest(FORGOTTEN) {
        return problem(error).hint(format!("{FORGOTTEN}: {why}"));
    }
    match broker.card().require(Ability::ShowWaiting) {
        Err(unseen) if is_unknown => problem(error).hint(unseen.to_string()),
        Ok(()) | Err(_) => problem(error),
    }
}

/// Why nobody could tell what this machine lacks.
pub(super) fn unexamined(why: String) -> Problem {
    Problem::unavailable(why).hint("taskvisor doctor, on the host of this supervisor")
}

/// An error of the broker as a client gets it.
pub(super) fn problem(error: Error) -> Problem {
    let message = error.to_string();
    match error {
        Error::NoJob(_) | Error::NoneToNeed(_) | Error::NoQueue(_) | Error::NoRecurring(_) => {
            Problem::not_found(message)
        }
        Error::Exists(_)
        | Error::NotAJob(..)
        | Error::WrongState { .. }
        | Error::Needed { .. }
        | Error::InUse(..) => Problem::conflict(message),
        Error::Refused(_) | Error::Url(_) => Problem::bad_request(message),
        Error::Unsupported { .. } => Problem::new(501, message),
        Error::PartlyPut { put, in_doubt, .. } => Problem { put, in_doubt, ..Problem::unavailable(message) },
        Error::Lost(_) | Error::Failed(_) | Error::Disk(_) => Problem::unavailable(message),
        Error::Unanswered(_) => Problem::in_doubt(message),
    }
}
