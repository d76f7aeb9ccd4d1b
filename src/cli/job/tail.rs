//! The last lines of an output that is read from its beginning.

/// The last lines of what was pushed.
pub struct Tail {
    lines: usize,
    /// These lines; the last one may have no end yet.
    pub kept: Vec<u8>,
}

impl Tail {
    /// Keeps this number of lines.
    pub fn new(lines: usize) -> Tail {
        Tail { lines, kept: Vec::new() }
    }

    /// Adds what comes next, and drops the lines that are no longer among the last.
    pub fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let ends = self.kept.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        // The end of the last line begins no other.
        let is_last = |at: &usize| at + 1 == self.kept.len();
        if let Some(at) = ends.skip_while(is_last).nth(self.lines.saturating_sub(1)) {
            self.kept.drain(..=at);
        }
        // The search above keeps one line at least.
        if self.lines == 0 {
            self.kept.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(lines: usize, pieces: &[&str]) -> String {
        let mut tail = Tail::new(lines);
        pieces.iter().for_each(|piece| tail.push(piece.as_bytes()));
        String::from_utf8(tail.kept).unwrap()
    }

    #[test]
    fn tail_has_the_last_lines_however_they_came() {
        assert_eq!(last(2, &["a\nb\n", "c\n"]), "b\nc\n");
        assert_eq!(last(2, &["a\nb\nc"]), "b\nc");
        assert_eq!(last(2, &["a\nb", "b\n", "c\nd"]), "c\nd");
        assert_eq!(last(9, &["a\n", "\n"]), "a\n\n");
        assert_eq!(last(1, &["a\n\n"]), "\n");
        assert_eq!(last(0, &["a\n"]), "");
    }
}
