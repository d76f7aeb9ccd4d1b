//! Text from others on its way to a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with control characters and changes of direction escaped, so that it cannot control a terminal.
pub fn escaped(text: &str) -> Cow<'_, str> {
    // Nearly always: then nothing is copied.
    if !text.chars().any(controls_terminal) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // As printf and bash write them, so that it can be pasted into a command.
            c if controls_terminal(c) && (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if controls_terminal(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.into()
}

/// Whether a letter controls a terminal, or how the letters beside it are shown: control characters, among them those of C1,
/// ends of lines, and changes of direction.
pub fn controls_terminal(c: char) -> bool {
    let directs =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || directs || matches!(c, '\u{2028}' | '\u{2029}')
}
