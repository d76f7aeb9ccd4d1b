//! A cron line: the minutes of a calendar that it stands for, without a time zone.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::Fields;
use super::line::{self, WrongLine};

/// Five fields: minute, hour, day of the month, month, day of the week. As Vixie's cron reads them: where both days are
/// restricted, either will do.
///
/// ```
/// use taskvisor_model::Cron;
/// assert!("30 2 * * mon-fri".parse::<Cron>().is_ok());
/// let wrong = "30 24 * * *".parse::<Cron>().unwrap_err();
/// assert!(wrong.picture().ends_with("  30 24 * * *\n     ^^"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    fields: Fields,
}

impl Cron {
    /// Whether the line goes by elapsed time and not by the hours that a clock shows: its hour begins with a star.
    pub(super) fn goes_by_elapsed_time(&self) -> bool {
        self.fields.any_hour
    }

    /// The first matching minute that does not begin before `from`.
    pub(super) fn from(&self, from: DateTime) -> Option<DateTime> {
        self.fields.from(from)
    }
}

impl FromStr for Cron {
    type Err = WrongLine;

    fn from_str(text: &str) -> Result<Self, WrongLine> {
        Ok(Cron { text: text.into(), fields: line::read(text)? })
    }
}

impl TryFrom<String> for Cron {
    type Error = WrongLine;

    fn try_from(text: String) -> Result<Self, WrongLine> {
        text.parse()
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> String {
        cron.text
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}
