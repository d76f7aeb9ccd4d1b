//! Texts for `$NOTIFY_SOCKET` (sd_notify): lines of `NAME=VALUE`.

/// Longest text of [`Order::Notify`](super::keeper::Order::Notify), in bytes.
pub const NOTIFY_MAX: usize = 1024;

/// The status line for systemd, whatever people and jobs have written into it. A newline would begin another field, and
/// systemd drops a status that is not UTF-8: control characters become spaces, and a long text ends with a whole character.
pub fn status(line: &str) -> String {
    let mut text = String::from("STATUS=");
    text.extend(line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }));
    if text.len() > NOTIFY_MAX {
        // The mark takes three bytes of it.
        text.truncate(text.floor_char_boundary(NOTIFY_MAX - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// The part of a text that fits into an order, with whole characters.
pub(super) fn fitting(text: &str) -> &str {
    &text[..text.floor_char_boundary(NOTIFY_MAX)]
}
