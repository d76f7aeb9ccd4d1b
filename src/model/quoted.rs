//! Texts of others that are too long for a line.

/// The longest text of a job that a line quotes, in characters.
const MOST: usize = 200;

/// Cuts a text from a job or a person to the length that a line of the log or an event may quote: 200 characters.
///
/// ```
/// use taskvisor_model::quoted;
/// assert_eq!(quoted("short"), "short");
/// assert_eq!(quoted(&"é".repeat(1000)), format!("{} [1600 bytes more]", "é".repeat(200)));
/// ```
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} [{} bytes more]", &text[..end], text.len() - end),
    }
}
