//! What can be typed to change a supervisor that runs.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use config::parse_duration;
use model::Scale as Workers;

#[derive(Debug, clap::Args)]
pub(crate) struct Reload {
    /// Only say what would change: of each setting from what to what
    #[arg(long)]
    pub dry_run: bool,
    /// Return when all slots run on the new settings: 0 = they do, 1 = the new workers cannot boot, 124 = timed out
    #[arg(long, conflicts_with = "dry_run")]
    pub wait: bool,
    /// Wait no longer than this; the exchange goes on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Recycle {
    /// The pool's name [default: all]
    pub pool: Option<String>,
    /// Return when the new workers are ready and the old ones gone: 0 = so it is, 1 = they cannot boot, 124 = timed out
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this; the exchange goes on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// The pool's name
    pub pool: String,
    /// The number of workers, or +N more, or -N fewer
    #[arg(value_name = "N|+N|-N", value_parser = parse_scale, allow_hyphen_values = true)]
    pub workers: Workers,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// The pool's name [default: all]
    pub pool: Option<String>,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The pool's name [default: all]
    pub pool: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    /// Return when no job runs
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this; the jobs go on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// Change nothing; say what would become of the jobs that run
    #[arg(long)]
    pub dry_run: bool,
    /// TERM to all jobs at once
    #[arg(long, conflicts_with = "kill")]
    pub now: bool,
    /// KILL to all jobs at once
    #[arg(long)]
    pub kill: bool,
    /// Wait no longer than this for the end; it goes on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
}

/// `8`, `+2` or `-2`.
fn parse_scale(text: &str) -> Result<Workers, String> {
    let wrong = |error: ParseIntError| match *error.kind() == IntErrorKind::PosOverflow {
        true => format!("'{text}' is too large: a pool has {} workers at most", u16::MAX),
        false => format!("'{text}' is no number of workers: write 8, or +2 or -2 for more or fewer"),
    };
    match text.as_bytes().first() {
        // A sign decides: `+2` and `2` are the same number, but not the same order.
        Some(b'+' | b'-') => text.parse().map(Workers::By).map_err(wrong),
        _ => text.parse().map(Workers::To).map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_number_scales_relatively() {
        assert_eq!(parse_scale("8"), Ok(Workers::To(8)));
        assert_eq!(parse_scale("0"), Ok(Workers::To(0)));
        assert_eq!(parse_scale("+2"), Ok(Workers::By(2)));
        assert_eq!(parse_scale("-2"), Ok(Workers::By(-2)));
        for wrong in ["", "+", "-", "many", "1.5"] {
            assert!(parse_scale(wrong).is_err_and(|why| why.contains("+2 or -2")), "{wrong}");
        }
        assert_eq!(
            parse_scale("70000"),
            Err("'70000' is too large: a pool has 65535 workers at most".into())
        );
    }
}
