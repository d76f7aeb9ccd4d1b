//! A tree on a terminal: lines, each with the lines below it.

use std::fmt::Write as _;
use std::ops::Range;

use super::screen::Look;

/// A line, in which one word may have a colour.
#[derive(Default)]
pub struct Line {
    /// What it says.
    pub text: String,
    colored: Option<(Range<usize>, &'static str)>,
}

/// Begins what is well.
pub const GREEN: &str = "\x1b[32m";
/// Begins what needs a look.
pub const YELLOW: &str = "\x1b[33m";
/// Begins what is wrong.
pub const RED: &str = "\x1b[31m";
/// Ends a colour.
pub const PLAIN: &str = "\x1b[0m";

impl Line {
    /// A line without colour.
    pub fn plain(text: impl Into<String>) -> Self {
        Line { text: text.into(), colored: None }
    }

    /// Appends a word in this colour; a line has one such word.
    pub fn colored(&mut self, word: &str, color: &'static str) {
        let start = self.text.len();
        self.text += word;
        self.colored = Some((start..self.text.len(), color));
    }

    /// Writes it, cut to the width.
    pub fn draw(&self, look: &Look, out: &mut String) {
        let text = look.cut(&self.text);
        match &self.colored {
            // A line that was cut within the word stays plain: the color would have no end.
            Some((word, color)) if look.color && text.is_char_boundary(word.end) && text.len() > word.end => {
                let (before, word, after) = (&text[..word.start], &text[word.clone()], &text[word.end..]);
                let _ = writeln!(out, "{before}{color}{word}{PLAIN}{after}");
            }
            _ => {
                let _ = writeln!(out, "{text}");
            }
        }
    }
}

/// A line with the lines below it.
pub struct Node {
    /// The line itself.
    pub line: Line,
    /// Plain lines that belong to it.
    pub text: Vec<String>,
    /// The lines below it.
    pub below: Vec<Node>,
}

impl Node {
    /// A line with these below it.
    pub fn new(line: Line, below: Vec<Node>) -> Self {
        Node { line, text: Vec::new(), below }
    }

    /// A plain line with none below it.
    pub fn leaf(text: impl Into<String>) -> Self {
        Node::new(Line::plain(text), Vec::new())
    }

    /// `own` comes before this line, `rest` before those below it.
    pub fn draw(self, look: &Look, own: &str, rest: &str, out: &mut String) {
        let indent = own.len();
        let Line { text, colored } = self.line;
        let colored = colored.map(|(word, color)| (word.start + indent..word.end + indent, color));
        Line { text: format!("{own}{text}"), colored }.draw(look, out);
        for text in &self.text {
            let stem = match (self.below.is_empty(), look.ascii) {
                (true, _) => "   ",
                (false, true) => "|  ",
                (false, false) => "│  ",
            };
            Line::plain(format!("{rest}{stem}{text}")).draw(look, out);
        }
        let last = self.below.len().saturating_sub(1);
        for (n, node) in self.below.into_iter().enumerate() {
            let (branch, stem) = match (n == last, look.ascii) {
                (false, false) => ("├─ ", "│  "),
                (true, false) => ("└─ ", "   "),
                (false, true) => ("|- ", "|  "),
                (true, true) => ("`- ", "   "),
            };
            node.draw(look, &format!("{rest}{branch}"), &format!("{rest}{stem}"), out);
        }
    }
}
