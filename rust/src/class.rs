//! A class of jobs, with the settings of its jobs.

use std::time::Duration;

use crate::protocol;

/// The longest name of a class, in bytes.
const NAME_MAX: usize = 255;

/// A class for which a worker has a handler: its name, and the settings of its jobs that were put without their own.
/// These win over the settings of the pool.
///
/// Every method panics at a value that no job can have, so that a mistake shows when the worker starts, and not when
/// the pool refuses the value.
///
/// ```
/// use std::time::Duration;
/// use taskvisor_worker::Class;
///
/// Class::new("report.Build")
///     .time_limit(Duration::from_secs(600))
///     .soft_time_limit(Duration::from_secs(540))
///     .memory_limit(512 << 20)
///     .retries(2)
///     .backoff(Duration::from_secs(5), Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct Class {
    pub(crate) name: String,
    pub(crate) settings: protocol::Class,
}

impl From<&str> for Class {
    fn from(name: &str) -> Class {
        Class::new(name)
    }
}

impl Class {
    /// A class without settings of its own.
    ///
    /// # Panics
    ///
    /// If the name is empty, longer than 255 bytes, or has control characters.
    #[track_caller]
    pub fn new(name: &str) -> Class {
        assert!(!name.is_empty(), "the name of a class is empty");
        assert!(name.len() <= NAME_MAX, "the name of a class has {} bytes: {NAME_MAX} at most", name.len());
        assert!(!name.contains(char::is_control), "the name of a class has control characters: {name:?}");
        Class { name: name.into(), settings: protocol::Class::default() }
    }

    /// Ends an attempt that runs for longer.
    ///
    /// # Panics
    ///
    /// At 0, and below the soft limit.
    #[track_caller]
    pub fn time_limit(mut self, limit: Duration) -> Class {
        self.settings.time_limit = Some(seconds("the time limit", limit));
        self.in_order()
    }

    /// From this moment of an attempt on [`Job::is_nearly_over`](crate::Job::is_nearly_over) returns true, so that the
    /// handler can wrap up.
    ///
    /// # Panics
    ///
    /// At 0, and above the time limit.
    #[track_caller]
    pub fn soft_time_limit(mut self, limit: Duration) -> Class {
        self.settings.soft_time_limit = Some(seconds("the soft time limit", limit));
        self.in_order()
    }

    /// Ends an attempt whose processes use more CPU time.
    ///
    /// # Panics
    ///
    /// At 0.
    #[track_caller]
    pub fn cpu_limit(mut self, limit: Duration) -> Class {
        self.settings.cpu_limit = Some(seconds("the CPU limit", limit));
        self
    }

    /// Kills an attempt whose processes use more memory, in bytes.
    ///
    /// # Panics
    ///
    /// At 0.
    #[track_caller]
    pub fn memory_limit(mut self, bytes: u64) -> Class {
        self.settings.memory_limit = Some(positive("the memory limit", bytes));
        self
    }

    /// Kills an attempt that has more processes at a time.
    ///
    /// # Panics
    ///
    /// At 0.
    #[track_caller]
    pub fn process_limit(mut self, processes: u64) -> Class {
        self.settings.process_limit = Some(positive("the process limit", processes));
        self
    }

    /// Ends an attempt that prints more, in bytes.
    ///
    /// # Panics
    ///
    /// At 0.
    #[track_caller]
    pub fn output_limit(mut self, bytes: u64) -> Class {
        self.settings.output_limit = Some(positive("the output limit", bytes));
        self
    }

    /// Tries after the first one.
    pub fn retries(mut self, retries: u32) -> Class {
        self.settings.retries = Some(retries);
        self
    }

    /// The wait before the first retry, doubled for each later one up to `cap`.
    ///
    /// # Panics
    ///
    /// If `cap` is shorter than `delay`.
    #[track_caller]
    pub fn backoff(mut self, delay: Duration, cap: Duration) -> Class {
        assert!(delay <= cap, "the first wait ({delay:?}) is longer than the longest ({cap:?})");
        self.settings.retry_delay = Some(delay.as_secs_f64());
        self.settings.retry_cap = Some(cap.as_secs_f64());
        self
    }

    #[track_caller]
    fn in_order(self) -> Class {
        if let (Some(soft), Some(hard)) = (self.settings.soft_time_limit, self.settings.time_limit) {
            assert!(soft <= hard, "the soft time limit ({soft} s) is above the time limit ({hard} s)");
        }
        self
    }
}

#[track_caller]
fn seconds(what: &str, limit: Duration) -> f64 {
    assert!(!limit.is_zero(), "{what} is 0: no job could run");
    limit.as_secs_f64()
}

#[track_caller]
fn positive(what: &str, limit: u64) -> u64 {
    assert!(limit > 0, "{what} is 0: no job could run");
    limit
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn invalid_class_settings_panic_at_the_builder() {
        let second = Duration::from_secs(1);
        let refused: [fn() -> Class; 9] = [
            || Class::new(""),
            || Class::new("a\nb"),
            || Class::new(&"x".repeat(256)),
            || Class::new("a").time_limit(Duration::ZERO),
            || Class::new("a").cpu_limit(Duration::ZERO),
            || Class::new("a").memory_limit(0),
            || Class::new("a").process_limit(0),
            || Class::new("a").soft_time_limit(Duration::from_secs(2)).time_limit(Duration::from_secs(1)),
            || Class::new("a").backoff(Duration::from_secs(2), Duration::from_secs(1)),
        ];
        for (number, make) in refused.into_iter().enumerate() {
            assert!(catch_unwind(make).is_err(), "number {number} is taken");
        }
        let class = Class::new("a").time_limit(second).soft_time_limit(second).retries(0);
        assert_eq!((class.settings.time_limit, class.settings.retries), (Some(1.0), Some(0)));
    }
}
