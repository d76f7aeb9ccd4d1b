//! JSON on a page: indented, every digit as it was written, and what is to be hidden hidden.

use maud::{Markup, PreEscaped};

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
    /// Whether the value at this path of names is hidden.
    fn hides(&self, path: &[String]) -> bool {
        let Some(last) = path.last() else { return false };
        let whole = path.join(".");
        self.names.iter().any(|name| {
            let name = name.to_lowercase();
            fits(&name, last) || fits(&name, &whole)
        })
    }
}

/// Whether a text is as a pattern says, in which `*` stands for any text.
pub fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| fits(rest, &text[at..]))
        }),
    }
}

/// Limit of the bytes that are shown.
pub const MOST: usize = 64 << 10;
/// Deepest nesting that is indented.
const DEEPEST: usize = 40;

/// The text as JSON with its lines indented, or as it is if it is none. It must not be longer than [`MOST`].
pub fn pretty(json: &str, redact: &Redact) -> Markup {
    if redact.all {
        return PreEscaped("<span class=\"mark\">hidden</span>".into());
    }
    if serde_json::from_str::<&serde_json::value::RawValue>(json).is_err() {
        // What is no JSON has no fields: it cannot be known what to hide.
        return match redact.names.is_empty() {
            true => text::lines(json),
            false => PreEscaped("<span class=\"mark\">hidden: it is no JSON</span>".into()),
        };
    }
    let mut writer = Writer { rest: json.trim(), out: String::new(), path: Vec::new(), redact };
    writer.value();
    PreEscaped(writer.out)
}

struct Writer<'a> {
    rest: &'a str,
    out: String,
    path: Vec<String>,
    redact: &'a Redact,
}

impl Writer<'_> {
    fn value(&mut self) {
        self.skip();
        if self.redact.hides(&self.path) {
            let from = self.out.len();
            self.any();
            self.out.truncate(from);
            self.out += "<span class=\"mark\">hidden</span>";
        } else {
            self.any();
        }
    }

    fn any(&mut self) {
        match self.rest.bytes().next() {
            Some(b'{') => self.list('{', '}'),
            Some(b'[') => self.list('[', ']'),
            Some(b'"') => {
                let word = self.string();
                self.colored("str", word);
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
        self.path.push(String::new());
        while !self.rest.is_empty() {
            self.line();
            self.skip();
            let name = if open == '{' { self.name() } else { number.to_string() };
            if let Some(last) = self.path.last_mut() {
                *last = name.to_lowercase();
            }
            self.value();
            number += 1;
            self.skip();
            let more = self.rest.starts_with(',');
            self.take(1);
            if !more {
                break;
            }
            self.out.push(',');
        }
        self.path.pop();
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
        let deep = self.path.len().min(DEEPEST);
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
}
