//! `512MB`, `1GiB`: a number of bytes.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use super::row::Setting;

const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000), // Often typed for kB.
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a number of bytes. Only 0 needs no unit: `512` could also mean MB.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size like 512MB, 1GiB or 100kB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    if unit.is_empty() && number > 0 {
        return Err(format!("'{text}' is a size without a unit: {text}MB, {text}MiB or {text}B?"));
    }
    let unit = if unit.is_empty() { "B" } else { unit };
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    number.checked_mul(*factor).ok_or_else(wrong)
}

/// Writes a number of bytes as [`parse_size`] reads it, in the unit with the smallest whole number.
pub(super) fn format_size(bytes: u64) -> String {
    let whole = UNITS.iter().filter(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    // Of equals `max_by_key` takes the last: backwards that is kB, and not KB.
    let (unit, factor) = whole.rev().max_by_key(|(_, factor)| *factor).unwrap_or(&("", 1));
    format!("{}{unit}", bytes / factor)
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    /// The number of bytes.
    pub(super) fn bytes(self) -> u64 {
        self.0
    }
}

impl Setting for Size {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Option<Size>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size like 512MB or 1GiB")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    // As if it were text: a number without a unit is refused with the same words.
    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Self::Value, E> {
        self.visit_str(&bytes.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        parse_size(text).map(|bytes| Some(Size(bytes))).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_of_thousands_or_of_1024s() {
        for (text, bytes) in
            [("512MB", 512_000_000), ("1GiB", 1 << 30), ("64kB", 64_000), ("0", 0), ("7B", 7)]
        {
            assert_eq!((parse_size(text), format_size(bytes)), (Ok(bytes), text.to_owned()));
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in ["", "MB", "-1MB", "1.5GB", "1 MB", "1M", "1mb", "512XB", "99999999999GiB"] {
            assert_eq!(parse_size(text), Err(format!("'{text}' is no size like 512MB, 1GiB or 100kB")));
        }
        let without = "'512' is a size without a unit: 512MB, 512MiB or 512B?";
        assert_eq!(parse_size("512"), Err(without.to_owned()));
    }
}
