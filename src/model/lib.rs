//! The values that all rooms share. This room imports no other.

#![warn(unreachable_pub)]

#[macro_use]
mod word_enum;

mod bytes;
mod config_shown;
mod day;
mod defaults;
mod diagnosis;
mod duration;
mod ends;
mod escaped;
mod fit;
mod fleet;
mod folded;
mod format;
mod history;
mod ids;
mod job;
mod job_counts;
mod job_record;
mod job_state;
mod json;
mod killer;
mod limits;
mod list;
mod log;
mod meters;
mod new_job;
mod object;
mod option;
mod outcome;
mod output;
mod payload;
mod pool;
mod progress;
mod published_event;
mod put_note;
mod queue_counts;
mod queue_set;
mod quoted;
mod random;
mod recurring;
mod schedule;
mod search;
mod series;
mod settings;
mod size_rule;
mod slot_name;
mod snapshot;
mod status;
mod suggestion;
mod suspect;

mod time;
mod today;
pub mod verb;
mod verdict;
mod why;

pub use bytes::Bytes;
pub use config_shown::{ConfigShown, SettingShown};
pub use day::Day;
pub use diagnosis::{Diagnosis, Finding, Fitness};
pub use duration::{format_duration, parse_duration};
pub use ends::Ends;
pub use escaped::{controls_terminal, escaped};
pub use fit::Fit;
pub use fleet::{Fleet, Member, MemberJob, PoolSign, Presence};
pub use folded::FEWEST;
pub use format::{json_depth, json_text};
pub use history::{Attempt, Entry, Happened};
pub use ids::{Class, Fence, Instance, JobId, QueueName, SlotId, WorkerId};
pub use job::{Fetched, Job, Lease};
pub use job_counts::{Counted, FirstFailure, JobCounts};
pub use job_record::{JobRecord, Need};
pub use job_state::JobState;
pub use killer::{oom_kills_in, who_sent_it};
pub use limits::{Bounds, Excess, Limits, size};
pub use list::{Cursor, Filter, Page, Searched};
pub use log::{LogFormat, LogLevel, LogSettings, Rotate};
pub use meters::{Counters, Disk, Histogram, Meters, PoolCounters, Ran, RecurringMeter, Tally};
pub use new_job::{Exists, NewJob, batch, batch_fault, name_fault, tags_fault};
pub use object::{Object, object};
pub use option::{OptionName, OptionValue, Options, OptionsInForce};
pub use outcome::{
    DeadWorker, EndedFor, Exit, ExitStatus, Failure, Forensics, Next, Outcome, Revocation, Signal,
    SignalSent, Usage, cut,
};
pub use output::{OutputEnd, OutputLine, OutputPart, OutputQuery, Stream};
pub use payload::{Exec, Payload, Retry};
pub use pool::{
    ClassFilter, ClassSettings, Classes, CutOff, Identity, Leftovers, Order, ProcessLimits, QUEUE_PRIORITY,
    QUEUE_PRIORITY_MAX, QUEUE_TURN_MAX, SpawnSpec, Take, Waiting, Work,
};
pub use progress::Progress;
pub use published_event::{Interest, PublishedEvent, What};
pub use put_note::PutNote;
pub use queue_counts::{Ordered, Pause, QueueCounts};
pub use queue_set::QueueSet;
pub use quoted::quoted;
pub use random::Random;
pub use recurring::{LatestJob, Overlap, Recurring, RecurringRecord};
pub use schedule::{Cron, Schedule, Timetable};
pub use search::{Cut, Search, matches_class};
pub use series::{OneSeries, SeriesBy, SeriesQuery, SeriesStep, TimeSeries};
pub use settings::{Change, Follow, PoolSettings, Recycle, Scale, Settings, Stop, Unproven};
pub use size_rule::{SizeRule, TimedSize};
pub use slot_name::{SlotName, WorkerName};
pub use snapshot::{Caught, Picture, Snapshot};
pub use status::{
    Flood, Health, Host, LogStatus, PageStatus, PoolNow, PoolStatus, PoolsNow, Process, RunningJob,
    SlotState, SlotStatus, Status,
};
pub use suggestion::suggestion;
pub use time::{Instant, Millis, millis_up};
pub use today::{Sum, Today};
pub use verdict::{Count, Settlement, Verdict};
pub use why::{Decision, Subject, Why};
