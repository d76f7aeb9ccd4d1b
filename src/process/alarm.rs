//! A timer for the loop, by the boot-time clock.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watched::watched;
use model::Instant;

/// Fires at a moment of the boot-time clock. The runtime's own timers round up to the next millisecond or two, and
/// stand still while the machine is suspended, when leases do not.
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set_to: Option<Instant>,
}

impl Alarm {
    /// A timer that is not set.
    pub fn new() -> io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { timer: watched(timer, Interest::READABLE)?, set_to: None })
    }

    /// Returns at that moment; never if there is none.
    pub async fn rings(&mut self, at: Option<Instant>) -> io::Result<()> {
        if self.set_to != at {
            self.set(at)?;
        }
        loop {
            let mut ready = self.timer.readable().await?;
            if let Ok(rung) = ready.try_io(|timer| Ok(read(timer, &mut [0_u8; 8])?)) {
                // It rings once: the next call sets it again, also to the same moment.
                self.set_to = None;
                return rung.map(drop);
            }
        }
    }

    fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        const SECOND: u64 = 1_000_000_000;
        // Zero would clear the timer.
        let Instant(nanos) = at.map_or(Instant(0), |at| Instant(at.0.max(1)));
        let it_value = Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.set_to = at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn now() -> Instant {
        let now = clock_gettime(ClockId::Boottime);
        Instant(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    #[tokio::test]
    async fn alarm_rings_at_its_time_and_not_before() {
        let mut alarm = Alarm::new().unwrap();
        for wait in [Duration::from_millis(20), Duration::ZERO] {
            let at = now() + wait;
            alarm.rings(Some(at)).await.unwrap();
            assert!(now() >= at);
        }
        alarm.rings(Some(Instant(0))).await.unwrap();
    }

    #[tokio::test]
    async fn replaced_alarm_does_not_ring() {
        let mut alarm = Alarm::new().unwrap();
        for other in [None, Some(now() + Duration::from_secs(60))] {
            let soon = now() + Duration::from_millis(50);
            tokio::select! {
                biased;
                _ = alarm.rings(Some(soon)) => panic!("it rings at once"),
                () = std::future::ready(()) => {}
            }
            let rings = tokio::time::timeout(Duration::from_millis(100), alarm.rings(other)).await;
            assert!(rings.is_err(), "{other:?}");
        }
        alarm.rings(Some(now() + Duration::from_millis(1))).await.unwrap();
    }
}
