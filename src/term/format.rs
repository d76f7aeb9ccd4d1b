//! Small parts of sentences: counts, durations, how a process ended.

use std::time::Duration;

use super::screen::age;
use config::format_duration;
use model::{Exit, ExitStatus, Millis, Schedule};

/// A number with its noun: `1 job`, `2 jobs`.
pub fn counted(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// A number with commas between its thousands: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let places = (1..=digits.len()).rev();
    digits.chars().zip(places).fold(String::new(), |mut text, (digit, place)| {
        text.push(digit);
        if place > 1 && place % 3 == 1 {
            text.push(',');
        }
        text
    })
}

/// How a process ended.
pub fn exit_status(exit: &Exit) -> String {
    let status = match exit.status {
        ExitStatus::Code(code) => format!("code {code}"),
        ExitStatus::Signal { signal, core } => {
            let name = nix::sys::signal::Signal::try_from(signal).map(|known| format!(" ({known})"));
            let core = if core { ", core dumped" } else { "" };
            format!("signal {signal}{}{core}", name.unwrap_or_default())
        }
    };
    if exit.oom { status + ", out of memory" } else { status }
}

/// The moment, if it is known: changes by other programs may come without a time.
pub fn known(at: Millis) -> Option<Millis> {
    (at.0 > 0).then_some(at)
}

/// The time from one moment to a later one; zero if a clock was set back.
pub fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// How long ago a moment was.
pub fn ago(at: Millis, now: Millis) -> String {
    match between(at, now) {
        // Fewer milliseconds than a reader needs to look.
        ago if ago < Duration::from_millis(100) => "just now".into(),
        ago => format!("{} ago", age(ago)),
    }
}

/// When a recurring job is due, in words.
pub fn schedule(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Every { interval, .. } => format!("every {}", format_duration(*interval)),
        Schedule::Cron { line, zone } => format!("{line} ({zone})"),
    }
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        // A quote within: the shell ends its quotes, takes an escaped one, and begins others.
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
