//! Text of others on a page: names and data stay text, and what cannot be seen is made visible.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped};
use model::controls_terminal;

/// Limit of a name in a list, in characters; the rest is cut.
const SHORT: usize = 120;

/// A text in one line. Control characters and changes of direction are shown as marks, and the text cannot turn the
/// direction of what stands beside it.
pub(crate) fn shown(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str("<bdi>");
    text.chars().for_each(|letter| add(&mut out, letter, false));
    out.push_str("</bdi>");
    PreEscaped(out)
}

/// The same, cut where it is longer than a list has room for.
pub(crate) fn short(text: &str) -> Markup {
    match text.char_indices().nth(SHORT) {
        None => shown(text),
        Some((end, _)) => {
            let PreEscaped(mut cut) = shown(&text[..end]);
            let _ = write!(cut, "<span class=\"mark\" title=\"{} bytes more\">…</span>", text.len() - end);
            PreEscaped(cut)
        }
    }
}

/// Text of several lines, for an element that keeps them.
pub(crate) fn lines(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|letter| add(&mut out, letter, true));
    PreEscaped(out)
}

/// Adds one letter; `keeps_lines` says whether line ends and tabs keep their meaning.
pub(crate) fn add(out: &mut String, letter: char, keeps_lines: bool) {
    match letter {
        // Five letters are all that HTML needs in text and in quoted attributes.
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '&' => out.push_str("&amp;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        '\n' | '\t' if keeps_lines => out.push(letter),
        _ if controls_terminal(letter) || is_unseen(letter) => mark(out, letter),
        _ => out.push(letter),
    }
}

/// Letters that take no room: two names could look alike.
fn is_unseen(letter: char) -> bool {
    // The last of these are tags, in which a whole hidden text can stand.
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn mark(out: &mut String, letter: char) {
    let code = letter as u32;
    let picture = match code {
        // Unicode has a picture for each control character.
        0..0x20 => char::from_u32(0x2400 + code).map(String::from),
        0x7f => Some("\u{2421}".into()),
        _ => None,
    };
    let picture = picture.unwrap_or_else(|| format!("U+{code:04X}"));
    let _ = write!(out, "<span class=\"mark\" title=\"U+{code:04X}\">{picture}</span>");
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    // Which other letters are special differs from shell to shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        // Within single quotes a shell knows nothing special but their end.
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Words as the last ones of a command: one that begins as an option does would be read as one.
pub(crate) fn names<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    let mark = if words.iter().any(|word| word.starts_with('-')) { "-- " } else { "" };
    let words: Vec<String> = words.into_iter().map(quoted).collect();
    mark.to_owned() + &words.join(" ")
}

/// Queue, class and data as the last words of a `put`, for which what stands behind `--` is a command.
pub(crate) fn of_class(queue: &str, class: &str, data: &str) -> String {
    // A number below 0 stays one with a blank before it.
    let data = if data.starts_with('-') { quoted(&format!(" {data}")) } else { quoted(data) };
    match queue.starts_with('-') || class.starts_with('-') {
        true => format!("{}{} {data}", option("queue", queue), option("class", class)),
        false => format!(" {} {} {data}", quoted(queue), quoted(class)),
    }
}

/// An option of a command with its value, and a blank before it.
pub(crate) fn option(name: &str, value: &str) -> String {
    format!(" --{name}{}{}", if value.starts_with('-') { "=" } else { " " }, quoted(value))
}

/// Text for a path segment or a query value of a URL.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// A name as a path segment of a link. Browsers take `.` and `..` for places, encoded or not: a tilde stands before
/// them, and one more before a name that has it already.
pub(crate) fn segment(name: &str) -> String {
    format!("{}{}", if is_dots(name) { "~" } else { "" }, encoded(name))
}

/// The name that a decoded path segment means.
pub(crate) fn named(segment: &str) -> &str {
    segment.strip_prefix('~').filter(|rest| is_dots(rest)).unwrap_or(segment)
}

fn is_dots(name: &str) -> bool {
    matches!(name.trim_start_matches('~'), "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text_and_can_be_seen() {
        let PreEscaped(said) = shown("<b>\u{202e}a\u{1b}[2J\u{200b}&\"\n");
        assert!(
            said.starts_with("<bdi>&lt;b&gt;<span class=\"mark\" title=\"U+202E\">U+202E</span>a"),
            "{said}"
        );
        assert!(
            said.contains(">␛</span>[2J") && said.contains("U+200B") && said.contains(">␊</span>"),
            "{said}"
        );
        let PreEscaped(cut) = short(&"é".repeat(50_000));
        assert!(cut.len() < 400 && cut.contains("99760 bytes more"), "{cut}");
    }

    #[test]
    fn words_are_quoted_for_a_shell_and_for_a_url() {
        assert_eq!(
            (quoted("exit 1"), quoted("a.b"), quoted("it's")),
            ("'exit 1'".into(), "a.b".into(), "'it'\\''s'".into())
        );
        assert_eq!(
            (names(["a b", "c"]), names(["a", "--failed"])),
            ("'a b' c".into(), "-- a --failed".into())
        );
        assert_eq!(
            (option("class", "a"), option("class", "-a")),
            (" --class a".into(), " --class=-a".into())
        );
        assert_eq!(of_class("q", "C", "[1]"), " q C '[1]'");
        assert_eq!(of_class("-q", "C", "-5"), " --queue=-q --class C ' -5'");
        assert_eq!(encoded("a/b é?"), "a%2Fb%20%C3%A9%3F");
    }

    #[test]
    fn no_name_in_a_link_is_a_place_for_browsers() {
        for (name, link) in [("..", "~%2E%2E"), (".", "~%2E"), ("~..", "~~%2E%2E"), ("~", "~"), ("~a", "~a")]
        {
            assert_eq!(segment(name), link);
            assert_eq!(named(&link.replace("%2E", ".")), name);
        }
    }
}
