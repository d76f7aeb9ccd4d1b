//! Keys, from the bytes that a terminal sends.

/// A key of the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, as it is.
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    /// The key Enter.
    Enter,
    /// The key Escape alone.
    Esc,
    /// The key Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// The key that takes back a letter.
    Backspace,
    /// One of the arrows.
    Up,
    /// One of the arrows.
    Down,
    /// One of the arrows.
    Left,
    /// One of the arrows.
    Right,
    /// The key that goes to the beginning.
    Home,
    /// The key that goes to the end.
    End,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// Text that was pasted: no keys, so no orders.
    Paste(String),
}

/// Longest sequence that is waited for, and longest text that is pasted, in bytes.
const SEQUENCE: usize = 32;
const PASTED: usize = 4096;

/// Reads keys, of which the last may not be whole yet.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    pasted: Option<Vec<u8>>,
}

impl Decoder {
    /// The keys that are whole with these bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((key, length)) = self.next() {
            self.bytes.drain(..length);
            keys.extend(key);
        }
        keys
    }

    /// Whether a key may not be whole: a lone Escape looks like the begin of another key.
    pub fn waits(&self) -> bool {
        !self.bytes.is_empty() && self.pasted.is_none()
    }

    /// The key if nothing more comes.
    pub fn rest(&mut self) -> Option<Key> {
        let is_escape = self.bytes == [0x1b];
        self.bytes.clear();
        is_escape.then_some(Key::Esc)
    }

    fn next(&mut self) -> Option<(Option<Key>, usize)> {
        if self.pasted.is_some() {
            return self.paste();
        }
        let first = *self.bytes.first()?;
        match first {
            0x1b => self.escape(),
            b'\r' | b'\n' => Some((Some(Key::Enter), 1)),
            b'\t' => Some((Some(Key::Tab), 1)),
            // Terminals differ in which of the two they send.
            0x7f | 0x08 => Some((Some(Key::Backspace), 1)),
            1..=26 => Some((Some(Key::Ctrl(char::from(first - 1 + b'a'))), 1)),
            0..=31 => Some((None, 1)),
            _ => letter(&self.bytes),
        }
    }

    fn escape(&mut self) -> Option<(Option<Key>, usize)> {
        let second = *self.bytes.get(1)?;
        // A key with Alt comes as Escape and that key, and counts as both.
        if second != b'[' && second != b'O' {
            return Some((Some(Key::Esc), 1));
        }
        // The byte that ends a control sequence (ECMA-48).
        let last = self.bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte));
        let Some(last) = last.map(|last| last + 2) else {
            return (self.bytes.len() > SEQUENCE).then_some((None, self.bytes.len()));
        };
        let parameters = &self.bytes[2..last];
        let key = match (self.bytes[last], parameters) {
            (b'A', _) => Some(Key::Up),
            (b'B', _) => Some(Key::Down),
            (b'C', _) => Some(Key::Right),
            (b'D', _) => Some(Key::Left),
            (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
            (b'F', _) | (b'~', b"4" | b"8") => Some(Key::End),
            (b'Z', _) => Some(Key::BackTab),
            (b'~', b"5") => Some(Key::PageUp),
            (b'~', b"6") => Some(Key::PageDown),
            // Enter of a keypad in its application mode.
            (b'M', b"") if second == b'O' => Some(Key::Enter),
            // A pasted text begins.
            (b'~', b"200") => {
                self.pasted = Some(Vec::new());
                None
            }
            _ => None,
        };
        Some((key, last + 1))
    }

    fn paste(&mut self) -> Option<(Option<Key>, usize)> {
        const END: &[u8] = b"\x1b[201~";
        let found = self.bytes.windows(END.len()).position(|window| window == END);
        // What could be the begin of the end stays for the next bytes.
        let length = found.unwrap_or(self.bytes.len().saturating_sub(END.len() - 1));
        let pasted = self.pasted.as_mut()?;
        let room = PASTED.saturating_sub(pasted.len());
        pasted.extend_from_slice(&self.bytes[..length.min(room)]);
        match found {
            Some(at) => {
                let text = self.pasted.take().unwrap_or_default();
                Some((Some(Key::Paste(String::from_utf8_lossy(&text).into_owned())), at + END.len()))
            }
            None if length > 0 => Some((None, length)),
            None => None,
        }
    }
}

/// A letter of UTF-8; what is none is left out.
fn letter(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let most = &bytes[..bytes.len().min(4)];
    let text = match std::str::from_utf8(most) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&most[..error.valid_up_to()]).unwrap_or_default()
        }
        // No length: the letter is not whole yet.
        Err(error) => return error.error_len().map(|length| (None, length)),
    };
    let letter = text.chars().next()?;
    Some((Some(Key::Char(letter)), letter.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_whole_or_in_pieces() {
        let bytes =
            b"jK\x1b[A\x1bOB\x1b[1;5C\x1b[Z\x1b[5~\x1b[1~\r\t\x7f\x04\xc3\xa9\xe6\xbc\xa2\xff!\x1bq\x1b[99x";
        let keys = [
            Key::Char('j'),
            Key::Char('K'),
            Key::Up,
            Key::Down,
            Key::Right,
            Key::BackTab,
            Key::PageUp,
            Key::Home,
            Key::Enter,
            Key::Tab,
            Key::Backspace,
            Key::Ctrl('d'),
            Key::Char('é'),
            Key::Char('漢'),
            Key::Char('!'),
            Key::Esc,
            Key::Char('q'),
        ];
        assert_eq!(Decoder::default().feed(bytes), keys);
        let mut one_by_one = Decoder::default();
        let read: Vec<Key> = bytes.iter().flat_map(|byte| one_by_one.feed(&[*byte])).collect();
        assert_eq!(read, keys);
        assert!(!one_by_one.waits());
    }

    #[test]
    fn lone_escape_is_a_key_when_nothing_follows() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert!(decoder.waits());
        assert_eq!(decoder.rest(), Some(Key::Esc));
        assert!(!decoder.waits() && decoder.rest().is_none());
        assert_eq!(decoder.feed(&[b"\x1b[".as_slice(), &[b'1'; 64]].concat()), [Key::Char('1'); 0]);
    }

    #[test]
    fn pasted_text_is_no_keys() {
        let mut decoder = Decoder::default();
        let keys: Vec<Key> =
            b"\x1b[200~KY\x1b[A\r\x1b[201~j".iter().flat_map(|byte| decoder.feed(&[*byte])).collect();
        assert_eq!(keys, [Key::Paste("KY\x1b[A\r".into()), Key::Char('j')]);
        decoder.feed(b"\x1b[200~");
        decoder.feed(&[b'x'; 100_000]);
        let keys = decoder.feed(b"\x1b[201~");
        assert!(matches!(&keys[..], [Key::Paste(text)] if text.len() == PASTED));
    }
}
