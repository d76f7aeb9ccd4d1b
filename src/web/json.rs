//! JSON on a page: indented, every digit as it was written, and what is to be hidden hidden.

use maud::{Markup, PreEscaped};
use serde_json::value::RawValue;

use crate::text;

/// Which values are not shown: the names of their fields, in small letters, `*` standing for any text.
#[derive(Clone, Debug, Default)]
pub struct Redact {
    /// The names. `*.token` is a field `token` of any object.
    pub names: Vec<String>,
    /// Whether no data is shown at all.
    pub all: bool,
}

impl Redact {
    /// Whether any of this is hidden.
    pub fn hides_some(&self) -> bool {
        self.all || !self.names.is_empty()
    }
}

/// Whether a pattern in small letters means the field of this name at this path.
fn means(pattern: &str, name: &str, path: &str) -> bool {
    fits(pattern, name)
        || fits(pattern, path)
        // The object that has the field may be the whole.
        || pattern.strip_prefix("*.").is_some_and(|pattern| fits(pattern, path))
}

/// Whether a text is as a pattern says, in which `*` stands for any text.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(start).and_then(|text| text.strip_suffix(end)) else { return false };
    // The first place of each piece leaves the most room for those behind it.
    let after = |text: &str, piece: &str| text.find(piece).map(|at| at + piece.len());
    middle.split('*').try_fold(text, |text, piece| after(text, piece).map(|at| &text[at..])).is_some()
}

/// Limit of the bytes that are shown.
pub(crate) const MOST: usize = 64 << 10;
/// Deepest nesting that is indented.
const DEEPEST: usize = 40;
/// What is nested deeper is not taken apart: each level takes a part of the stack.
const LEVELS: usize = 100;
/// Longest path of names, in bytes, that is compared with the hidden ones; what has a longer one is hidden.
const LONGEST: usize = 4096;

/// The text as JSON with its lines indented, or as it is if it is none. It must not be longer than [`MOST`].
pub(crate) fn pretty(json: &str, redact: &Redact) -> Markup {
    let hidden = |why: &str| PreEscaped(format!("<span class=\"mark\">hidden{why}</span>"));
    if redact.all {
        return hidden("");
    }
    // What is not taken apart has no fields: it cannot be known what to hide.
    let is_json = serde_json::from_str::<&RawValue>(json).is_ok();
    let why_not = match is_json {
        true if model::json_depth(json.as_bytes()) <= LEVELS => None,
        true => Some(": it is nested deeper than 100 levels"),
        false => Some(": it is no JSON"),
    };
    match why_not {
        Some(why) if redact.hides_some() => return hidden(why),
        Some(_) => return text::lines(json),
        None => {}
    }
    let names: Vec<String> = redact.names.iter().map(|name| name.to_lowercase()).collect();
    let mut writer = Writer {
        rest: json.trim(),
        out: String::new(),
        path: Path::default(),
        names: &names,
        level: 0,
        hidden: 0,
    };
    writer.value();
    PreEscaped(writer.out)
}

/// The names of the fields that lead to a value, in small letters.
#[derive(Clone, Default)]
struct Path {
    /// With dots between them.
    whole: String,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Path {
    fn push(&mut self, name: &str) {
        if !self.whole.is_empty() {
            self.whole.push('.');
        }
        self.starts.push(self.whole.len());
        self.whole += &name.to_lowercase();
    }

    fn pop(&mut self) {
        let start = self.starts.pop().unwrap_or(0);
        self.whole.truncate(start.saturating_sub(1));
    }

    fn last(&self) -> Option<&str> {
        self.starts.last().map(|start| &self.whole[*start..])
    }
}

struct Writer<'a> {
    rest: &'a str,
    out: String,
    path: Path,
    /// The hidden names, in small letters.
    names: &'a [String],
    /// In how many lists and objects it is.
    level: usize,
    /// How many values were hidden so far.
    hidden: usize,
}

impl Writer<'_> {
    fn value(&mut self) {
        self.skip();
        if self.hides() {
            // A hidden value is read all the same, to find its end.
            let from = self.out.len();
            self.any();
            self.out.truncate(from);
            self.out += "<span class=\"mark\">hidden</span>";
            self.hidden += 1;
        } else {
            self.any();
        }
    }

    /// Whether the value at this place is hidden.
    fn hides(&self) -> bool {
        let (Some(name), whole) = (self.path.last(), self.path.whole.as_str()) else { return false };
        !self.names.is_empty()
            && (whole.len() > LONGEST || self.names.iter().any(|pattern| means(pattern, name, whole)))
    }

    /// Whether a string is JSON itself, with a field that is hidden.
    fn hides_within(&self, word: &str) -> bool {
        if self.names.is_empty() {
            return false;
        }
        // What cannot be read here may be read by others.
        let Ok(text) = serde_json::from_str::<String>(word) else { return true };
        let rest = text.trim();
        if !rest.starts_with(['{', '[', '"']) || serde_json::from_str::<&RawValue>(rest).is_err() {
            return false;
        }
        // The values around it have used a part of the stack already.
        if self.path.starts.len() + model::json_depth(rest.as_bytes()) > LEVELS {
            return true;
        }
        let path = self.path.clone();
        // The path goes on: `a.token` also means the token in JSON that the string `a` holds.
        let mut within = Writer { rest, out: String::new(), path, names: self.names, level: 0, hidden: 0 };
        within.any();
        within.hidden > 0
    }

    fn any(&mut self) {
        match self.rest.bytes().next() {
            Some(b'{') => self.list('{', '}'),
            Some(b'[') => self.list('[', ']'),
            Some(b'"') => {
                let word = self.string();
                if self.hides_within(word) {
                    self.out += "<span class=\"mark\">hidden</span>";
                    self.hidden += 1;
                } else {
                    self.colored("str", word);
                }
            }
            Some(_) => {
                let end = self.rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(self.rest.len());
                let word = self.take(end);
                self.colored("num", word);
            }
            None => {}
        }
    }

    fn list(&mut self, open: char, close: char) {
        self.take(1);
        self.skip();
        self.out.push(open);
        if self.rest.starts_with(close) {
            self.take(1);
            self.out.push(close);
            return;
        }
        let mut number = 0_usize;
        self.level += 1;
        while !self.rest.is_empty() {
            self.line();
            self.skip();
            // In a path the number of an entry stands for its name.
            let name = if open == '{' { self.name() } else { number.to_string() };
            self.path.push(&name);
            self.value();
            self.path.pop();
            number += 1;
            self.skip();
            let more = self.rest.starts_with(',');
            self.take(1);
            if !more {
                break;
            }
            self.out.push(',');
        }
        self.level -= 1;
        self.line();
        self.out.push(close);
    }

    /// A field's name with its colon; gives it decoded, for a hidden one may be written with escapes.
    fn name(&mut self) -> String {
        let name = self.string();
        self.colored("key", name);
        self.skip();
        self.take(1);
        self.out += ": ";
        serde_json::from_str(name).unwrap_or_else(|_| name.to_owned())
    }

    fn line(&mut self) {
        self.out.push('\n');
        let deep = self.level.min(DEEPEST);
        self.out.extend(std::iter::repeat_n("  ", deep));
    }

    fn colored(&mut self, class: &str, word: &str) {
        self.out += "<span class=\"j-";
        self.out += class;
        self.out += "\">";
        word.chars().for_each(|letter| text::add(&mut self.out, letter, false));
        self.out += "</span>";
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
    }
}

impl<'a> Writer<'a> {
    fn string(&mut self) -> &'a str {
        let mut is_escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        self.take(end.map_or(self.rest.len(), |end| end + 2))
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (word, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(json: &str, names: &[&str]) -> String {
        let redact = Redact { names: names.iter().map(|name| (*name).into()).collect(), all: false };
        let PreEscaped(text) = pretty(json, &redact);
        let mut out = String::new();
        let mut inside = false;
        for letter in text.chars() {
            match letter {
                '<' => inside = true,
                '>' => inside = false,
                _ if !inside => out.push(letter),
                _ => {}
            }
        }
        out.replace("&quot;", "\"")
    }

    #[test]
    fn every_digit_and_every_escape_stays() {
        let json = r#"{"n":1.50e400, "big":12345678901234567890123,"a":[1,{}, []],"s":"q\"\\"}"#;
        assert_eq!(
            plain(json, &[]),
            "{\n  \"n\": 1.50e400,\n  \"big\": 12345678901234567890123,\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n  \"s\": \"q\\\"\\\\\"\n}"
        );
    }

    #[test]
    fn hidden_fields_are_hidden_however_they_are_written() {
        let json = r#"{"Pass\u0077ord":{"a":"secret"},"api":{"token":"secret","name":"x"},"list":[{"token":"secret"}]}"#;
        let said = plain(json, &["password", "*.token"]);
        assert!(!said.contains("secret") && said.contains("\"x\""), "{said}");
        assert_eq!(plain("secret", &["password"]), "hidden: it is no JSON");
        assert_eq!(plain("<script>", &[]), "&lt;script&gt;");
    }
    #[test]
    fn deep_nesting_is_shown_as_text_or_not_at_all() {
        for levels in [100, 101, 30_000] {
            let deep = "[".repeat(levels) + &"]".repeat(levels);
            let shown = plain(&deep, &[]);
            assert_eq!(shown == deep, levels > 100, "{levels}");
            assert!(plain(&deep, &["password"]).contains("hidden") == (levels > 100), "{levels}");
        }
        let within = serde_json::to_string(&("[".repeat(20_000) + &"]".repeat(20_000))).unwrap();
        assert_eq!(plain(&within, &["password"]), "hidden");
    }

    #[test]
    fn token_of_any_object_is_hidden_at_the_top_too() {
        let json = r#"{"token":"secret","a":{"b":{"token":"secret"}},"tokens":"kept"}"#;
        let said = plain(json, &["*.token"]);
        assert!(!said.contains("secret") && said.contains("kept"), "{said}");
        let said = plain(r#"{"b":"kept","a":{"b":"secret"}}"#, &["a.b"]);
        assert!(!said.contains("secret") && said.contains("kept"), "{said}");
    }

    #[test]
    fn json_in_a_string_is_hidden_with_its_fields() {
        let inner = r#"{"list":[{"token":"secret"}]}"#;
        let twice = serde_json::to_string(inner).unwrap();
        for inner in [inner, &twice] {
            let json = serde_json::json!({ "raw": inner, "other": "{\"name\":\"kept\"}" }).to_string();
            let said = plain(&json, &["*.token"]);
            assert!(!said.contains("secret") && said.contains("kept"), "{said}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, does) in [
            ("*", "", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*key*", "my_key_2", true),
            ("**x", "x", true),
        ] {
            assert_eq!(fits(pattern, text), does, "{pattern} {text}");
        }
    }
}
