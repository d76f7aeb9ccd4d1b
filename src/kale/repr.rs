//! How Python would print the call of a task, made without running anything.

use super::message::Message;
use super::pickle::Value;

/// Values that nest deeper than this are shown as `…`.
const DEPTH: usize = 12;

/// Limit of the characters of the publisher's name.
const PUBLISHER: usize = 80;

impl Message {
    /// The call, such as `app.tasks.Send('ann', subject='hello')`, in `most` characters; `…` ends one that is cut.
    pub fn call(&self, most: usize) -> String {
        let mut out = Repr { text: String::new(), room: most, is_cut: false };
        out.put(&self.task);
        out.put("(");
        let mut between = "";
        if let Value::List(args) | Value::Tuple(args) = &self.args {
            out.items(args, DEPTH);
            between = if args.is_empty() { "" } else { ", " };
        }
        if let Value::Dict(entries) = &self.kwargs {
            // Each takes at least one character, so no more of them fit.
            for (key, value) in entries.iter().take(most) {
                out.put(between);
                match key {
                    Value::Str(name) => out.put(name),
                    Value::None
                    | Value::Bool(_)
                    | Value::Int(_)
                    | Value::Big(_)
                    | Value::Float(_)
                    | Value::Bytes(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Dict(_)
                    | Value::Set(_)
                    | Value::FrozenSet(_)
                    | Value::Object(_) => out.value(key, DEPTH),
                }
                out.put("=");
                out.value(value, DEPTH);
                between = ", ";
            }
        }
        out.put(")");
        out.end()
    }

    /// Its counters and who sent it.
    pub fn origin(&self) -> String {
        let publisher: String = self.publisher.chars().take(PUBLISHER).collect();
        format!("retry {}, failure {}, published by {publisher}", self.retry_num, self.failure_num)
    }
}

/// A text with a limit of characters.
struct Repr {
    text: String,
    room: usize,
    is_cut: bool,
}

impl Repr {
    fn end(mut self) -> String {
        // In place of the last character, so that the limit holds.
        if self.is_cut && self.text.pop().is_some() {
            self.text.push('…');
        }
        self.text
    }

    fn put(&mut self, part: &str) {
        part.chars().take_while(|c| self.push(*c)).count();
    }

    /// Whether there was room for it.
    fn push(&mut self, char: char) -> bool {
        self.is_cut |= self.room == 0;
        if !self.is_cut {
            self.text.push(char);
            self.room -= 1;
        }
        !self.is_cut
    }

    fn value(&mut self, value: &Value, depth: usize) {
        if depth == 0 {
            return self.put("…");
        }
        match value {
            Value::None => self.put("None"),
            Value::Bool(is) => self.put(if *is { "True" } else { "False" }),
            Value::Int(number) => self.put(&number.to_string()),
            Value::Big(bytes) => self.put(&big(bytes)),
            // Rust writes it as NaN.
            Value::Float(number) if number.is_nan() => self.put("nan"),
            Value::Float(number) => self.put(&format!("{number:?}")),
            Value::Str(text) => self.quoted(text.chars(), false),
            Value::Bytes(bytes) => {
                self.put("b");
                self.quoted(bytes.iter().map(|byte| char::from(*byte)), true);
            }
            Value::List(items) => self.enclosed("[", items, "]", depth),
            Value::Tuple(items) if items.len() == 1 => self.enclosed("(", items, ",)", depth),
            Value::Tuple(items) => self.enclosed("(", items, ")", depth),
            Value::Set(items) if items.is_empty() => self.put("set()"),
            Value::Set(items) => self.enclosed("{", items, "}", depth),
            Value::FrozenSet(items) if items.is_empty() => self.put("frozenset()"),
            Value::FrozenSet(items) => self.enclosed("frozenset({", items, "})", depth),
            Value::Dict(entries) => self.dict(entries, depth),
            Value::Object(name) => {
                self.put("<");
                self.put(name);
                self.put(">");
            }
        }
    }

    fn enclosed(&mut self, start: &str, items: &[Value], end: &str, depth: usize) {
        self.put(start);
        self.items(items, depth - 1);
        self.put(end);
    }

    fn items(&mut self, items: &[Value], depth: usize) {
        for (at, item) in items.iter().enumerate() {
            if self.is_cut {
                return;
            }
            self.put(if at == 0 { "" } else { ", " });
            self.value(item, depth);
        }
    }

    fn dict(&mut self, entries: &[(Value, Value)], depth: usize) {
        self.put("{");
        for (at, (key, value)) in entries.iter().enumerate() {
            if self.is_cut {
                return;
            }
            self.put(if at == 0 { "" } else { ", " });
            self.value(key, depth - 1);
            self.put(": ");
            self.value(value, depth - 1);
        }
        self.put("}");
    }

    /// A text or bytes in quotes. No more of them is looked at than there is room for.
    fn quoted(&mut self, chars: impl Iterator<Item = char> + Clone, are_bytes: bool) {
        let has = |quote| chars.clone().take(self.room).any(|c| c == quote);
        // As Python chooses its quotes.
        let quote = if has('\'') && !has('"') { '"' } else { '\'' };
        self.push(quote);
        for char in chars {
            if self.is_cut {
                return;
            }
            match char {
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                '\t' => self.put("\\t"),
                '\\' => self.put("\\\\"),
                _ if char == quote => {
                    self.push('\\');
                    self.push(char);
                }
                _ if char.is_control() || (are_bytes && !char.is_ascii()) => {
                    self.put(&format!("\\x{:02x}", u32::from(char)));
                }
                _ => drop(self.push(char)),
            }
        }
        self.push(quote);
    }
}

/// A large integer: its digits up to 128 bits, else its size.
fn big(bytes: &[u8]) -> String {
    let mut whole = [if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 }; 16];
    match whole.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            i128::from_le_bytes(whole).to_string()
        }
        None => format!("<integer of {} bytes>", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(args: Vec<Value>, kwargs: Vec<(Value, Value)>) -> Message {
        Message {
            id: "Send_uuid_1".into(),
            task: "app.Send".into(),
            args: Value::Tuple(args),
            kwargs: Value::Dict(kwargs),
            app_data: Value::None,
            enqueued_time: 1.0,
            publisher: "host[7]".into(),
            retry_num: 2,
            failure_num: 1,
        }
    }

    #[test]
    fn call_is_printed_as_python_prints_it() {
        let text = |text: &str| Value::Str(text.into());
        let args = vec![
            text("ann"),
            text("it's"),
            text("a\n\u{1b}\\"),
            Value::Bytes(b"\xff'\"a".to_vec()),
            Value::Tuple(vec![Value::Int(-1)]),
            Value::List(vec![Value::None, Value::Bool(true), Value::Float(1.0)]),
            Value::Set(vec![]),
            Value::Big(vec![0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ];
        let kwargs = vec![
            (text("when"), Value::Object("datetime.datetime".into())),
            (text("of"), Value::Dict(vec![(text("a"), Value::FrozenSet(vec![Value::Int(1)]))])),
        ];
        let message = task(args, kwargs);
        assert_eq!(
            message.call(500),
            r#"app.Send('ann', "it's", 'a\n\x1b\\', b'\xff\'"a', (-1,), [None, True, 1.0], set(), 18446744073709551616, when=<datetime.datetime>, of={'a': frozenset({1})})"#
        );
        assert_eq!(message.origin(), "retry 2, failure 1, published by host[7]");
        assert_eq!(task(vec![], vec![]).call(10), "app.Send()");
    }

    #[test]
    fn large_and_deep_values_are_cut() {
        let long = task(vec![Value::Str("x".repeat(1 << 20)), Value::Int(1)], vec![]);
        assert_eq!(long.call(20), "app.Send('xxxxxxxxx…");
        let many = task(vec![Value::List(vec![Value::Int(7); 100_000])], vec![]);
        assert_eq!(many.call(16), "app.Send([7, 7,…");
        let deep = (0..90).fold(Value::None, |inner, _| Value::List(vec![inner]));
        assert_eq!(task(vec![deep], vec![]).call(80), "app.Send([[[[[[[[[[[[…]]]]]]]]]]]])");
        let huge = task(vec![Value::Big(vec![1; 4000])], vec![]);
        assert_eq!(huge.call(80), "app.Send(<integer of 4000 bytes>)");
    }
}
