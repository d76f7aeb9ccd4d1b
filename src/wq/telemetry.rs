//! Samples of how long tasks took and how many wait, in QuantumLeap's format: CSV with the columns Timepoint
//! (nanoseconds since 1970), Measurement, Label, PID.

use std::fmt::Write as _;

/// The first line of a file.
const HEADER: &str = "Timepoint,Measurement,Label,PID\n";
/// Size in bytes from which on a sheet is written to a file.
const FULL: usize = 1 << 20;

/// Something that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The time, in nanoseconds since 1970.
    pub at: i128,
    /// Seconds, or a count.
    pub value: f64,
    /// The name of the measurement.
    pub label: String,
    /// The measured process.
    pub pid: i32,
}

/// Samples on their way to a file.
#[derive(Debug, Default)]
pub struct Sheet(String);

impl Sheet {
    /// Adds a sample; gives the text for a file when there is enough.
    pub fn add(&mut self, sample: &Sample) -> Option<String> {
        if self.0.is_empty() {
            self.0 += HEADER;
        }
        let Sample { at, value, label, pid } = sample;
        _ = writeln!(self.0, "{at},{value},{},{pid}", quoted(label));
        (self.0.len() >= FULL).then(|| std::mem::take(&mut self.0))
    }

    /// The remaining text, if any.
    pub fn rest(self) -> Option<String> {
        Some(self.0).filter(|text| !text.is_empty())
    }
}

/// A label as a CSV field, in quotes if needed.
fn quoted(label: &str) -> String {
    match label.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", label.replace('"', "\"\"")),
        false => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_sheet_has_a_header_and_one_line_per_sample() {
        let sample = |label: &str| Sample { at: 17, value: 0.25, label: label.into(), pid: 9 };
        let mut sheet = Sheet::default();
        assert_eq!(sheet.add(&sample("task: Insert")), None);
        assert_eq!(sheet.add(&sample("task: \"a,b\"")), None);
        assert_eq!(
            sheet.rest().unwrap(),
            "Timepoint,Measurement,Label,PID\n17,0.25,task: Insert,9\n17,0.25,\"task: \"\"a,b\"\"\",9\n"
        );
        assert_eq!(Sheet::default().rest(), None);
        let mut sheet = Sheet::default();
        let full = (0..100_000).find_map(|_| sheet.add(&sample("task: Insert"))).unwrap();
        assert!(
            full.starts_with(HEADER) && full.ends_with('\n') && full.len() < FULL + 100,
            "{}",
            full.len()
        );
        assert_eq!(sheet.rest(), None, "the next file begins anew");
    }
}
