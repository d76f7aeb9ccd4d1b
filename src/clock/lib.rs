//! The only place that reads a clock. The pure rooms get the time as a value.

#![warn(unreachable_pub)]

use std::time::Duration;

use model::{Instant, Millis};
use nix::time::{ClockId, clock_gettime};

/// The boot-time clock: goes on in suspend, never jumps.
pub fn now() -> Instant {
    let spec = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("CLOCK_BOOTTIME exists since Linux 2.6.39");
    Instant(spec.tv_sec() as u64 * 1_000_000_000 + spec.tv_nsec() as u64)
}

/// CLOCK_MONOTONIC, which systemd expects for the start of a reload.
pub fn monotonic() -> Duration {
    let spec = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC always exists");
    Duration::new(spec.tv_sec() as u64, spec.tv_nsec() as u32)
}

/// The wall clock, for people and for moments that a broker stores, never for a timer. The broker reads the same clock.
pub fn wall() -> Millis {
    Millis(wall_millis())
}

/// Milliseconds since 1970, to show to people, never for a timer.
pub fn wall_millis() -> i64 {
    let spec = clock_gettime(ClockId::CLOCK_REALTIME).expect("CLOCK_REALTIME always exists");
    spec.tv_sec() * 1_000 + spec.tv_nsec() / 1_000_000
}
