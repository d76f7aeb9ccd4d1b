//! The server's clock, on which all hosts agree for leases and delays. It is computed from this host's boot clock, so a
//! wrong wall clock of a host does no harm.

use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use model::{Instant, Millis};

/// How far the server's wall clock is ahead of this host's time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The difference in microseconds.
    ahead: i64,
    /// The possible error in microseconds: half the duration of the measurement.
    doubt: i64,
}

impl Offset {
    /// Measures the server's clock.
    pub async fn measure(
        conn: &mut MultiplexedConnection,
        now: &(dyn Fn() -> Instant + Send + Sync),
    ) -> RedisResult<Offset> {
        let asked = micros(now());
        let (seconds, fraction): (i64, i64) = redis::cmd("TIME").query_async(conn).await?;
        Ok(Offset::of(asked, micros(now()), seconds * 1_000_000 + fraction))
    }

    /// A given offset, without a measurement.
    pub fn known(ahead: i64) -> Offset {
        Offset { ahead, doubt: 0 }
    }

    fn of(asked: i64, heard: i64, said: i64) -> Offset {
        // The server read its clock at some moment of the request: its middle is wrong by half of it at most.
        let doubt = (heard - asked) / 2;
        Offset { ahead: said - asked - doubt, doubt }
    }

    /// The better of two measurements. If they contradict each other, a clock was set: then the later one.
    pub fn or(self, later: Offset) -> Offset {
        let contradict = (self.ahead - later.ahead).abs() > self.doubt + later.doubt;
        if contradict || later.doubt <= self.doubt { later } else { self }
    }

    /// A moment in the form for the script: seconds since 1970 with six decimals.
    pub fn seconds(self, at: Instant) -> String {
        let micros = self.micros(at);
        format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
    }

    fn micros(self, at: Instant) -> i64 {
        micros(at) + self.ahead
    }

    /// A moment in milliseconds since 1970, for people.
    pub fn millis(self, at: Instant) -> Millis {
        Millis(self.micros(at).div_euclid(1000))
    }

    /// The time until a moment that the script gave.
    pub fn until(self, seconds: f64, now: Instant) -> Duration {
        // Rounded up: whoever looks too early finds nothing due.
        let at = (seconds * 1e6).ceil() as i64;
        Duration::from_micros(u64::try_from(at.saturating_sub(self.micros(now))).unwrap_or(0))
    }
}

fn micros(at: Instant) -> i64 {
    i64::try_from(at.0 / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_time_is_measured_from_the_middle_of_the_request() {
        let offset = Offset::of(1_000, 1_200, 5_001_100);
        assert_eq!(offset.seconds(Instant(1_100_000)), "5.001100");
        assert_eq!(offset.millis(Instant(1_100_000)), Millis(5_001));
    }

    #[test]
    fn better_time_measurement_holds_until_a_clock_changes() {
        let (good, rough) = (Offset { ahead: 100, doubt: 10 }, Offset { ahead: 150, doubt: 60 });
        assert_eq!((good.or(rough), rough.or(good)), (good, good));
        let set = Offset { ahead: 9_000_000, doubt: 60 };
        assert_eq!(good.or(set), set);
    }
}
