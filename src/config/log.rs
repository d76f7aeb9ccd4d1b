//! The section `log` of the file.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::Error;
use super::duration::duration;
use super::paths::from_here;
use super::size::size;
use model::{LogFormat, LogLevel, LogSettings, Rotate};

/// The section `log` of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// The directory for the supervisor's own log and for what slots print outside of jobs.
    pub dir: Option<PathBuf>,
    /// The format of the supervisor's log.
    pub format: Option<LogFormat>,
    /// Limit of the output kept of one attempt.
    #[serde(default, deserialize_with = "size")]
    pub job_cap: Option<u64>,
    /// How long output is kept.
    #[serde(default, deserialize_with = "duration")]
    pub keep: Option<Duration>,
    /// The level of the supervisor's log.
    pub level: Option<LogLevel>,
    /// Limit of the output kept of all jobs.
    #[serde(default, deserialize_with = "size")]
    pub quota: Option<u64>,
    /// When to rotate the files in `dir`.
    #[serde(default)]
    pub rotate: RotateSection,
}

/// When to rotate a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotateSection {
    /// Number of older files to keep.
    pub keep: Option<u32>,
    /// Largest size of a file, in bytes.
    #[serde(default, deserialize_with = "size")]
    pub size: Option<u64>,
}

impl LogSection {
    /// Resolves the section together with the flags.
    pub(super) fn resolve(
        self,
        format: Option<LogFormat>,
        level: Option<LogLevel>,
    ) -> Result<LogSettings, Error> {
        let default = LogSettings::default();
        let rotate = Rotate {
            size: self.rotate.size.unwrap_or(default.rotate.size),
            keep: self.rotate.keep.unwrap_or(default.rotate.keep),
        };
        Ok(LogSettings {
            format: format.or(self.format).unwrap_or(default.format),
            level: level.or(self.level).unwrap_or(default.level),
            dir: self.dir.map(from_here).transpose()?,
            rotate,
            job_cap: self.job_cap.unwrap_or(default.job_cap),
            quota: self.quota.unwrap_or(default.quota),
            keep: self.keep.unwrap_or(default.keep),
        })
    }
}
