//! What `status` and `/readyz` say during the blows, compared with what is so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ask;
use crate::blows::{Strikes, now};
use crate::sandbox::{Sandbox, reasons};
use crate::tally::Tally;

/// Limit of the time from the beginning of an outage until `status` is no longer healthy, in milliseconds: what has failed
/// for 5 s is reported. An idle supervisor asks its broker nothing by itself, so the watch asks it from the beginning.
const PATIENCE: u64 = 8_000;

/// Asks again and again until told to end.
pub fn watch(sandbox: &Sandbox, strikes: &Strikes, tally: &Tally, what: &str, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(500));
        let Some(strike) = strikes.outage() else { continue };
        let after = now() - strike.from;
        let status = ask::json(sandbox, "/v1/status");
        let ready = ask::get(sandbox, "/readyz");
        // The outage may have ended meanwhile.
        if after < PATIENCE || strikes.outage().is_none_or(|now| now.from != strike.from) {
            continue;
        }
        tally.add("looks in outages", 1);
        if status["health"] == "healthy" {
            tally.violation(format!("{what}: healthy {after} ms after {:?} began", strike.blow));
        } else if status["health"].is_string() && reasons(&status).is_empty() {
            tally.violation(format!("{what}: no reason is given {after} ms after {:?} began", strike.blow));
        }
        if ready.is_some_and(|ready| ready == "{}") {
            tally.violation(format!("{what}: ready {after} ms after {:?} began", strike.blow));
        }
    }
}
