//! Output of jobs with the colours of terminals, as elements with classes.

use crate::text;

/// What a terminal would draw with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pen {
    fore: Option<u8>,
    back: Option<u8>,
    bold: bool,
    faint: bool,
    italic: bool,
    under: bool,
}

/// Turns output into HTML; keeps the colours from one piece to the next.
#[derive(Debug, Default)]
pub(crate) struct Ansi {
    pen: Pen,
    /// The beginning of a sequence or of a letter whose end has not come.
    rest: Vec<u8>,
}

/// Limit of an escape sequence, in bytes: the end of a longer one is not waited for.
const LONGEST: usize = 64;
/// The same of one that holds a title or a link.
const TITLE: usize = 2048;
/// The control character that rings the bell, and ends a title.
const BEL: u8 = 7;

impl Ansi {
    /// The next piece of output, as HTML.
    pub(crate) fn html(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(piece);
        let mut out = String::with_capacity(bytes.len() + 32);
        let mut rest = bytes.as_slice();
        // Each piece is HTML by itself: the browser parses one after the other.
        self.open(&mut out);
        while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
            self.text(&mut out, &rest[..at]);
            match sequence(&rest[at..]) {
                Sequence::Whole(length) => {
                    self.obey(&mut out, &rest[at..at + length]);
                    rest = &rest[at + length..];
                }
                Sequence::Begun => {
                    self.rest = rest[at..].to_vec();
                    rest = &[];
                }
                Sequence::None => {
                    text::add(&mut out, '\u{1b}', true);
                    rest = &rest[at + 1..];
                }
            }
        }
        // A letter may be cut where the piece ends.
        let whole = match std::str::from_utf8(rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // So may the end of a line.
            Ok(text) if text.ends_with('\r') => rest.len() - 1,
            Ok(_) | Err(_) => rest.len(),
        };
        self.text(&mut out, &rest[..whole]);
        self.rest.extend_from_slice(&rest[whole..]);
        self.close(&mut out);
        out
    }

    fn text(&self, out: &mut String, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            // A carriage return before a line end is part of it; another one began the line anew, as bars do.
            match letter {
                '\r' if letters.peek() == Some(&'\n') => {}
                '\r' => out.push('\n'),
                _ => text::add(out, letter, true),
            }
        }
    }

    /// Carries out a sequence that sets colours; others are left out.
    fn obey(&mut self, out: &mut String, sequence: &[u8]) {
        let Some((b'm', numbers)) =
            sequence.split_last().map(|(last, rest)| (*last, rest.get(2..).unwrap_or_default()))
        else {
            return;
        };
        let before = self.pen;
        let text = String::from_utf8_lossy(numbers);
        // An empty number is 0. A colour may have its numbers parted by colons (ITU T.416).
        let mut numbers = text.split([';', ':']).map(|number| number.parse().unwrap_or(0_u16));
        while let Some(number) = numbers.next() {
            self.set(number, &mut numbers);
        }
        if self.pen != before {
            if before != Pen::default() {
                out.push_str("</span>");
            }
            self.open(out);
        }
    }

    fn set(&mut self, number: u16, more: &mut impl Iterator<Item = u16>) {
        let pen = &mut self.pen;
        match number {
            0 => *pen = Pen::default(),
            1 => pen.bold = true,
            2 => pen.faint = true,
            3 => pen.italic = true,
            4 => pen.under = true,
            22 => (pen.bold, pen.faint) = (false, false),
            23 => pen.italic = false,
            24 => pen.under = false,
            30..=37 => pen.fore = u8::try_from(number - 30).ok(),
            38 => pen.fore = one_of_many(more),
            39 => pen.fore = None,
            40..=47 => pen.back = u8::try_from(number - 40).ok(),
            48 => pen.back = one_of_many(more),
            49 => pen.back = None,
            // The bright colours are 8 to 15.
            90..=97 => pen.fore = u8::try_from(number - 82).ok(),
            100..=107 => pen.back = u8::try_from(number - 92).ok(),
            _ => {}
        }
    }

    fn open(&self, out: &mut String) {
        let Pen { fore, back, bold, faint, italic, under } = self.pen;
        if self.pen == Pen::default() {
            return;
        }
        out.push_str("<span class=\"");
        fore.iter().for_each(|color| *out += &format!("f{color} "));
        back.iter().for_each(|color| *out += &format!("b{color} "));
        for (is_on, name) in [(bold, "bold "), (faint, "faint "), (italic, "ital "), (under, "under ")] {
            out.push_str(if is_on { name } else { "" });
        }
        out.push_str("\">");
    }

    fn close(&self, out: &mut String) {
        if self.pen != Pen::default() {
            out.push_str("</span>");
        }
    }
}

/// The nearest of the sixteen colours: a page with a strict policy has no others.
fn one_of_many(more: &mut impl Iterator<Item = u16>) -> Option<u8> {
    let level = |value: u16| u8::try_from(value.min(255)).unwrap_or(255);
    // 5: one of 256 by its number; 2: red, green and blue.
    match more.next()? {
        5 => {
            let number = level(more.next()?);
            match number {
                // The greys follow the cube of 6 by 6 by 6 colours; steps and levels are those of xterm.
                0..16 => Some(number),
                232.. => nearest([8 + (number - 232) * 10; 3]),
                _ => {
                    let cube = number - 16;
                    nearest(
                        [cube / 36, cube / 6 % 6, cube % 6]
                            .map(|step| if step == 0 { 0 } else { 55 + step * 40 }),
                    )
                }
            }
        }
        2 => nearest([level(more.next()?), level(more.next()?), level(more.next()?)]),
        _ => None,
    }
}

fn nearest(rgb: [u8; 3]) -> Option<u8> {
    let brightest = rgb.into_iter().max().unwrap_or(0);
    let is_on = |part: u8| u16::from(part) * 2 > u16::from(brightest);
    let hue = u8::from(is_on(rgb[0])) + 2 * u8::from(is_on(rgb[1])) + 4 * u8::from(is_on(rgb[2]));
    Some(match brightest {
        0..50 => 0,
        50..110 if hue == 7 => 8,
        50..200 => hue,
        _ => 8 + hue,
    })
}

enum Sequence {
    Whole(usize),
    Begun,
    None,
}

/// Whether the title or link before these bytes ends with them.
fn ends_title(bytes: &[u8]) -> bool {
    bytes.first() == Some(&BEL) || bytes.starts_with(b"\x1b\\")
}

/// The length of the sequence at the beginning of these bytes.
fn sequence(bytes: &[u8]) -> Sequence {
    let begun = if bytes.len() < LONGEST { Sequence::Begun } else { Sequence::None };
    match bytes.get(1) {
        None => begun,
        // A byte of this range ends it (ECMA-48, final byte).
        Some(b'[') => match bytes.iter().skip(2).take(LONGEST).position(|byte| (0x40..0x7f).contains(byte)) {
            Some(end) => Sequence::Whole(end + 3),
            None => begun,
        },
        // Titles and links: up to BEL or to the string terminator.
        Some(b']') => match (2..bytes.len().min(TITLE)).find(|at| ends_title(&bytes[*at..])) {
            Some(end) => Sequence::Whole(end + if bytes[end] == BEL { 1 } else { 2 }),
            None if bytes.len() < TITLE => Sequence::Begun,
            // Without a limit a title that never ends would hide all output behind it.
            None => Sequence::None,
        },
        // As ESC c, which resets a terminal.
        Some(0x40..0x7f) => Sequence::Whole(2),
        Some(_) => Sequence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_go_on_in_the_next_piece() {
        let mut ansi = Ansi::default();
        assert_eq!(ansi.html(b"a\x1b[1;31mred<\x1b["), "a<span class=\"f1 bold \">red&lt;</span>");
        assert_eq!(ansi.html(b"0m done\x1b[2J\xc3"), "<span class=\"f1 bold \"></span> done");
        assert_eq!(ansi.html(b"\xa9\r\n50%\r60%"), "é\n50%\n60%");
        let mut cut = Ansi::default();
        assert_eq!(cut.html(b"a\r") + &cut.html(b"\nb\r") + &cut.html(b"c"), "a\nb\nc");
        assert_eq!(Ansi::default().html(b"\x1b[38;5;196mx"), "<span class=\"f9 \">x</span>");
        assert_eq!(Ansi::default().html(b"\x1b[38;2;10;200;20mx\x1b[39my"), "<span class=\"f10 \">x</span>y");
        assert_eq!(Ansi::default().html(b"\x1b]0;title\x07x\x1b]8;;u\x1b\\y"), "xy");
        assert_eq!(Ansi::default().html(b"\x1b]0;title"), "");
        let rung = Ansi::default().html(b"\x1b]8;;u\x1b\\seen\x1b]8;;\x1b\\ rung\x07");
        assert!(rung.starts_with("seen rung"), "a bell later on ends no link: {rung}");
    }

    #[test]
    fn what_is_no_colour_is_shown_or_left_out_but_never_obeyed() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let html = Ansi::default().html(&bytes);
        assert!(!html.contains('\u{1b}') && !html.contains('\u{7}') && html.contains("U+"), "{html}");
        let open = html.matches("<span").count();
        assert_eq!(open, html.matches("</span>").count());
    }
}
