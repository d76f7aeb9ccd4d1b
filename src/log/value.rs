//! What a log event says, cut to a length that fits into every log. Other clients of a broker choose their ids freely.

use std::borrow::Cow;

/// Longest message, in bytes: a line that a worker prints outside of jobs is one. It fits into a datagram of the journal.
const LONGEST_MESSAGE: usize = 32 << 10;

/// Longest text of an error, in bytes.
const LONGEST_TEXT: usize = 4 << 10;

/// Longest text of any other field, such as the id of a job, in bytes.
const LONGEST: usize = 1 << 10;

/// The text of a field, cut where it is too long for a log of any format.
pub(super) fn cut<'a>(field: &str, text: &'a str) -> Cow<'a, str> {
    let longest = match field {
        "message" => LONGEST_MESSAGE,
        "error" | "why" => LONGEST_TEXT,
        _ => LONGEST,
    };
    if text.len() <= longest {
        return text.into();
    }
    let end = text.floor_char_boundary(longest);
    format!("{} [{} bytes more]", &text[..end], text.len() - end).into()
}

/// Whether an event of this length may have a text to cut.
pub(super) fn may_be_long(event: &[u8]) -> bool {
    event.len() > LONGEST
}
