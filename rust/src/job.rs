//! A job, as its handler gets it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use crate::End;
use crate::pipe::Pipe;
use crate::protocol::{self, Log, Progress, Raw, Said};
use crate::verbs::{Ask, field, verbs};

/// The data of a job, without its handler's means to send frames.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) id: String,
    pub(crate) fence: u64,
    pub(crate) class: String,
    pub(crate) queue: String,
    pub(crate) data: Vec<u8>,
    pub(crate) attempt: u32,
    pub(crate) retries: Option<u32>,
    pub(crate) priority: i32,
    pub(crate) tags: Vec<String>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) soft_time_limit: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) cwd: Option<String>,
    begun: Instant,
    /// Nanoseconds in which the process did not run, as far as the supervisor has said: they count towards no limit.
    stopped: Arc<AtomicU64>,
}

impl Facts {
    pub(crate) fn new(job: protocol::Job<'_>) -> Result<Facts, String> {
        let data = match (job.data, job.raw) {
            (Some(json), _) => json.get().as_bytes().to_vec(),
            (None, Some(Raw::Text(text))) => text.into_bytes(),
            (None, Some(Raw::Base64 { b64 })) => STANDARD
                .decode(b64)
                .map_err(|error| format!("the data of job {} is no base64: {error}", job.id))?,
            (None, None) => b"null".to_vec(),
        };
        let duration = |limit: Option<f64>| limit.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
        Ok(Facts {
            id: job.id.into(),
            fence: job.fence,
            class: job.class.into(),
            queue: job.queue.into(),
            data,
            attempt: job.attempt,
            retries: job.retries,
            priority: job.priority,
            tags: job.tags,
            time_limit: duration(job.time_limit),
            soft_time_limit: duration(job.soft_time_limit),
            grace: duration(job.grace),
            cwd: job.cwd,
            begun: Instant::now(),
            stopped: Arc::default(),
        })
    }

    fn stopped(&self) -> Duration {
        Duration::from_nanos(self.stopped.load(Ordering::Relaxed))
    }

    /// The time that counts towards its limits.
    pub(crate) fn ran(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.stopped())
    }

    /// Notes the answer to [`Ask::stopped`]. A supervisor that does not know this call knows of no stop.
    pub(crate) fn learn(&self, answer: Result<Box<RawValue>, End>) {
        let seconds = answer.and_then(|answer| field::<f64>(&answer, "seconds"));
        let stopped = seconds.ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let nanos = stopped.map_or(0, |stopped| u64::try_from(stopped.as_nanos()).unwrap_or(u64::MAX));
        self.stopped.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self, fraction: Option<f64>, message: &str) -> Said<'_> {
        let message = (!message.is_empty()).then(|| message.to_owned());
        let fraction = fraction.filter(|fraction| fraction.is_finite());
        Said::Progress(Progress { job: self.id.as_str().into(), fraction, message })
    }

    pub(crate) fn log<'a>(&'a self, text: &'a str) -> Said<'a> {
        Said::Log(Log { job: self.id.as_str().into(), text: text.into() })
    }
}

/// After this time a job that asks for the rest of its time has the supervisor asked again whether it was stopped.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Methods of both kinds of jobs.
macro_rules! facts {
    ($type:ty) => {
        impl $type {
            /// The job's id.
            pub fn id(&self) -> &str {
                &self.facts.id
            }

            /// The job's class.
            pub fn class(&self) -> &str {
                &self.facts.class
            }

            /// The queue in which it waited.
            pub fn queue(&self) -> &str {
                &self.facts.queue
            }

            /// Number of this attempt, from 1.
            pub fn attempt(&self) -> u32 {
                self.facts.attempt
            }

            /// Retries after the first attempt; None = as the supervisor decides.
            pub fn retries(&self) -> Option<u32> {
                self.facts.retries
            }

            /// Higher priorities run first.
            pub fn priority(&self) -> i32 {
                self.facts.priority
            }

            /// Tags of the job: free words.
            pub fn tags(&self) -> &[String] {
                &self.facts.tags
            }

            /// The time limit of this attempt, counted from its start.
            pub fn time_limit(&self) -> Option<std::time::Duration> {
                self.facts.time_limit
            }

            /// The soft time limit, counted from its start.
            pub fn soft_time_limit(&self) -> Option<std::time::Duration> {
                self.facts.soft_time_limit
            }

            /// Time left before its time limit ends it; None = there is no limit.
            pub fn time_left(&self) -> Option<std::time::Duration> {
                let limit = self.facts.time_limit?;
                self.ask_stopped($crate::job::AGAIN);
                Some(limit.saturating_sub(self.facts.ran()))
            }

            /// The time between SIGTERM (or a cancel) and SIGKILL, at least; None = the supervisor does not send it.
            pub fn grace(&self) -> Option<std::time::Duration> {
                self.facts.grace
            }

            /// Whether its soft time limit is over: time to save the work done and return.
            pub fn is_nearly_over(&self) -> bool {
                let Some(limit) = self.facts.soft_time_limit else { return false };
                let seems = self.facts.ran() >= limit;
                if seems {
                    self.ask_stopped(std::time::Duration::ZERO);
                }
                seems && self.facts.ran() >= limit
            }

            /// Its data, exactly as it was put.
            pub fn raw(&self) -> &[u8] {
                &self.facts.data
            }

            /// Its data, read as JSON.
            ///
            /// # Errors
            ///
            /// If the data does not fit the type. As it never will, the job has then failed for good.
            pub fn data<T: serde::de::DeserializeOwned>(&self) -> Result<T, $crate::End> {
                let wrong = |error| $crate::End::fail(format!("the data does not fit: {error}"));
                serde_json::from_slice(&self.facts.data).map_err(wrong)
            }
        }
    };
}
#[cfg(feature = "async")]
pub(crate) use facts;

/// A job in a blocking handler.
pub struct Job<'a> {
    pub(crate) facts: Facts,
    pub(crate) pipe: &'a RefCell<Pipe>,
    /// When the supervisor was last asked for how long the process was stopped.
    pub(crate) asked: Cell<Instant>,
}

facts!(Job<'_>);
verbs!(Job<'_>);

impl Job<'_> {
    /// Reports its progress: a fraction from 0 to 1, and a line for people. `status` and `job show` have the latest.
    pub fn progress(&self, fraction: Option<f64>, message: &str) {
        self.pipe.borrow_mut().say(&self.facts.progress(fraction, message));
    }

    /// Adds a line to the job's log, as if it were printed to stderr.
    pub fn log(&self, text: &str) {
        self.pipe.borrow_mut().say(&self.facts.log(text));
    }

    /// Whether this job must end now: it is canceled, its time is over, or the service stops.
    ///
    /// The supervisor says so by SIGTERM, which would end the process. From the first call until the end of the job it
    /// does not: the handler has the pool's grace to return. Its result then changes nothing, except at a stop: there a
    /// job that completes is complete.
    pub fn is_ending(&self) -> bool {
        crate::sys::term_is_heard()
    }

    /// Asks for how long the process was stopped, if that was not done for this time.
    fn ask_stopped(&self, since: Duration) {
        if self.asked.get().elapsed() >= since {
            self.asked.set(Instant::now());
            self.facts.learn(self.ask(Ask::stopped(&self.facts.id, self.facts.fence)));
        }
    }

    fn ask(&self, ask: Ask) -> Result<Box<RawValue>, End> {
        self.pipe.borrow_mut().call(ask.verb, &ask.args)
    }
}
