//! Formats JSON for people: the same tokens on several lines.

use serde::de::IgnoredAny;

/// JSON text with a line for each member; numbers and strings stay as they were written. Text that fits on a short
/// line, or is not JSON, stays as it is.
pub fn pretty_json(text: &str) -> String {
    const SHORT: usize = 60;
    let has_lines = text.contains('\n');
    if (text.len() <= SHORT && !has_lines) || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth: usize = 0;
    let mut rest = text;
    while let Some(token) = next_token(rest) {
        rest = rest[token.len()..].trim_start();
        match token {
            "{" | "[" if rest.starts_with(['}', ']']) => out += token,
            "{" | "[" => {
                depth += 1;
                out += token;
                new_line(&mut out, depth);
            }
            "}" | "]" => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    new_line(&mut out, depth);
                }
                out += token;
            }
            "," => {
                out += token;
                new_line(&mut out, depth);
            }
            ":" => out += ": ",
            other => out += other,
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// The next token: a mark, a string, or a number or word.
fn next_token(text: &str) -> Option<&str> {
    let length = match text.as_bytes().first()? {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        b'"' => string_length(text),
        _ => text.find(|c: char| c.is_whitespace() || "{}[],:".contains(c)).unwrap_or(text.len()),
    };
    Some(&text[..length])
}

fn string_length(text: &str) -> usize {
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return at + 1,
            // What is escaped ends no string.
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_lines_and_tokens_stay() {
        let text = "{ \"a\":1.0e0,\"b\" : [ true,{} , [\n] ],\"c{,\\\"\":\"x: y\",\"n\":123456789012345678901234567890}";
        let pretty = r#"{
  "a": 1.0e0,
  "b": [
    true,
    {},
    []
  ],
  "c{,\"": "x: y",
  "n": 123456789012345678901234567890
}"#;
        assert_eq!(pretty_json(text), pretty);
        assert_eq!(pretty_json(pretty), pretty);
    }

    #[test]
    fn short_lines_and_non_json_stay_unchanged() {
        for text in ["", "{\"a\":1}", "{\n", "\"\\", "nul\nl"] {
            assert_eq!(pretty_json(text), text);
        }
    }
}
