//! Reads a cron line, and points at the error in it.

use std::fmt;
use std::ops::Range;

use super::fields::Fields;

/// A cron line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WrongLine {
    line: String,
    /// The range of the wrong bytes.
    place: Range<usize>,
    why: String,
}

impl fmt::Display for WrongLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no cron line: at column {}: {}", self.line, self.column() + 1, self.why)
    }
}

impl WrongLine {
    /// The reason, with the line below it and marks under the wrong place.
    pub fn picture(&self) -> String {
        // With a tab in the line the marks would stand below another place.
        let line: String = self.line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let width = self.line[self.place.clone()].chars().count().max(1);
        format!("{}\n  {line}\n  {}{}", self.why, " ".repeat(self.column()), "^".repeat(width))
    }

    fn column(&self) -> usize {
        self.line[..self.place.start].chars().count()
    }
}

/// One of the five fields.
struct Field {
    name: &'static str,
    low: u8,
    high: u8,
    /// Names for the values from `low` on.
    names: &'static [&'static str],
    allowed: &'static str,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", low: 0, high: 59, names: &[], allowed: "0 to 59" },
    Field { name: "hour", low: 0, high: 23, names: &[], allowed: "0 to 23" },
    Field { name: "day of the month", low: 1, high: 31, names: &[], allowed: "1 to 31" },
    Field { name: "month", low: 1, high: 12, names: &MONTHS, allowed: "1 to 12 or jan to dec" },
    Field {
        name: "day of the week",
        low: 0,
        high: 7,
        names: &WEEKDAYS,
        allowed: "0 to 7 (0 and 7 are Sunday) or sun to sat",
    },
];

/// Words that stand for a whole line.
const SHORT: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Longest line, in bytes: longer ones would only be shown back.
const LONGEST: usize = 1000;

/// Reads a whole line.
pub(super) fn read(line: &str) -> Result<Fields, WrongLine> {
    if line.len() > LONGEST {
        let why = format!("it is longer than {LONGEST} bytes");
        return Err(WrongLine { line: "…".into(), place: 0..0, why });
    }
    let reader = Reader { line };
    let words = reader.words();
    let fields = match words.as_slice() {
        [word, rest @ ..] if line[word.clone()].starts_with('@') => reader.short(word, rest)?,
        words => reader.fields(words)?,
    };
    match fields.comes() {
        true => Ok(fields),
        false => Err(reader.wrong(&reader.days(&words), "this day never comes in this month")),
    }
}

struct Reader<'a> {
    line: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, place: &Range<usize>, why: impl Into<String>) -> WrongLine {
        WrongLine { line: self.line.into(), place: place.clone(), why: why.into() }
    }

    /// The ranges of the words.
    fn words(&self) -> Vec<Range<usize>> {
        let mut words = Vec::new();
        let mut at = 0;
        for word in self.line.split(|c: char| c.is_ascii_whitespace()) {
            if !word.is_empty() {
                words.push(at..at + word.len());
            }
            // Each space of ASCII is one byte.
            at += word.len() + 1;
        }
        words
    }

    /// The range from the day of the month to the month.
    fn days(&self, words: &[Range<usize>]) -> Range<usize> {
        match words {
            [_, _, day, month, ..] => day.start..month.end,
            _ => 0..self.line.len(),
        }
    }

    fn short(&self, word: &Range<usize>, rest: &[Range<usize>]) -> Result<Fields, WrongLine> {
        if let Some(more) = rest.first() {
            return Err(self.wrong(more, "nothing follows a word with @"));
        }
        match SHORT.iter().find(|(name, _)| name.eq_ignore_ascii_case(&self.line[word.clone()])) {
            Some((_, line)) => read(line),
            None => {
                let known = SHORT.map(|(name, _)| name).join(", ");
                Err(self.wrong(word, format!("no schedule is called that; known are {known}")))
            }
        }
    }

    fn fields(&self, words: &[Range<usize>]) -> Result<Fields, WrongLine> {
        if let Some(missing) = FIELDS.get(words.len()) {
            let end = self.line.len();
            let why = format!(
                "the {} is missing; the fields are minute, hour, day of the month, month and day of the week",
                missing.name
            );
            return Err(self.wrong(&(end..end), why));
        }
        if let Some(sixth) = words.get(FIELDS.len()) {
            return Err(
                self.wrong(sixth, "there are five fields: seconds, years and commands are not among them")
            );
        }
        let mut bits = [0; 5];
        for ((field, word), bits) in FIELDS.iter().zip(words).zip(&mut bits) {
            *bits = self.field(field, word)?;
        }
        let [minutes, hours, days, months, weekdays] = bits;
        // As in Vixie's cron `*/2` counts as a star, too.
        let star = |n: usize| words.get(n).is_some_and(|word| self.line[word.clone()].starts_with('*'));
        Ok(Fields {
            minutes,
            hours,
            days,
            months,
            // 7 is Sunday, too.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            // 0-23 means the same as *, so it goes by elapsed time, too.
            any_hour: star(1) || hours == (1 << 24) - 1,
            any_day: star(2),
            any_weekday: star(4),
        })
    }

    /// Reads one field, a list of items, as a set of bits.
    fn field(&self, field: &Field, word: &Range<usize>) -> Result<u64, WrongLine> {
        let mut bits = 0;
        let mut at = word.start;
        for item in self.line[word.clone()].split(',') {
            bits |= self.item(field, &(at..at + item.len()))?;
            at += item.len() + 1;
        }
        Ok(bits)
    }

    /// Reads one item of a list: a value, a range or a star, the latter two perhaps with a step.
    fn item(&self, field: &Field, place: &Range<usize>) -> Result<u64, WrongLine> {
        let item = &self.line[place.clone()];
        let (what, step) = match item.find('/') {
            Some(slash) => (place.start..place.start + slash, Some(place.start + slash + 1..place.end)),
            None => (place.clone(), None),
        };
        let (low, high) = match self.line[what.clone()].find('-') {
            Some(dash) => self.range(field, &what, dash)?,
            None if &self.line[what.clone()] == "*" => (field.low, field.high),
            None => {
                let value = self.value(field, &what)?;
                // For some programs 5/15 is 5-59/15, for others 5 alone: neither is guessed.
                if step.is_some() {
                    return Err(self.wrong(
                        place,
                        format!("a step follows * or a range: {value}-{}{}", field.high, &item[what.len()..]),
                    ));
                }
                (value, value)
            }
        };
        let step = step.map_or(Ok(1), |step| self.step(field, &step))?;
        Ok((low..=high).step_by(step).fold(0, |bits, value| bits | 1 << value))
    }

    fn range(&self, field: &Field, place: &Range<usize>, dash: usize) -> Result<(u8, u8), WrongLine> {
        let middle = place.start + dash;
        let low = self.value(field, &(place.start..middle))?;
        let mut high = self.value(field, &(middle + 1..place.end))?;
        // A range of weekdays that ends with Sunday.
        if field.names.len() == WEEKDAYS.len() && high == 0 && low > 0 {
            high = 7;
        }
        match low <= high {
            true => Ok((low, high)),
            false => {
                Err(self
                    .wrong(place, "the range ends before it begins; two ranges with a comma go over the end"))
            }
        }
    }

    fn step(&self, field: &Field, place: &Range<usize>) -> Result<usize, WrongLine> {
        match self.number(place) {
            // A step of 0 has no next value, and one longer than the field has no second one.
            Some(step) if (1..=field.high).contains(&step) => Ok(step.into()),
            Some(_) | None => Err(self.wrong(place, format!("a step is a number from 1 to {}", field.high))),
        }
    }

    fn value(&self, field: &Field, place: &Range<usize>) -> Result<u8, WrongLine> {
        let text = &self.line[place.clone()];
        let named = field.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u8::try_from(at).ok()).map(|at| field.low + at);
        let value = named.or_else(|| self.number(place));
        value.filter(|value| (field.low..=field.high).contains(value)).ok_or_else(|| {
            let other = match text.contains(['L', 'W', '#', '?']) {
                true => "; L, W, # and ? of other programs are not known here",
                false => "",
            };
            let why = format!(
                "this is no {}; allowed are {}, * for each, lists (1,3), ranges (1-5) and steps (*/2, 1-5/2){other}",
                field.name, field.allowed
            );
            self.wrong(place, why)
        })
    }

    fn number(&self, place: &Range<usize>) -> Option<u8> {
        let text = &self.line[place.clone()];
        // Rust's own `parse` would take a sign, too.
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    }
}
