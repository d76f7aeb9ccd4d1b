//! Rules about the logs.

use std::time::Duration;

use super::subject::{Advice, Whole, advice};
use crate::format_duration;
use model::{LogSettings, size};

type Rule = fn(&Whole) -> Option<Advice>;

/// One row for each rule.
pub(super) const RULES: [(&str, Rule); 5] = [
    ("quota-below-cap", quota_below_cap),
    ("quota-above-disk", quota_above_disk),
    ("keep-short", keep_short),
    ("log-short", log_short),
    ("rotate-unused", rotate_unused),
];

/// The time that somebody needs to look at a job that has just ended.
const A_LOOK: Duration = Duration::from_secs(60);
/// The size of the log of a bad hour.
const SHORT_LOG: u64 = 256 << 10;

fn quota_below_cap(whole: &Whole) -> Option<Advice> {
    let log = &whole.config.log;
    let (quota, cap) = (size(log.quota), size(log.job_cap));
    let message = format!(
        "log.quota is {quota}, less than log.job_cap, {cap}: one job that prints much removes the output of all"
    );
    (log.quota < log.job_cap).then(|| advice("log.quota", message, "set log.quota well above log.job_cap"))
}

fn quota_above_disk(whole: &Whole) -> Option<Advice> {
    let (quota, disk) = (whole.config.log.quota, whole.facts.capacity?);
    let message = format!(
        "log.quota is {}, and the disk of {} has {}: output may fill it, and the store needs it too",
        size(quota),
        whole.config.state_dir.display(),
        size(disk)
    );
    (quota >= disk).then(|| advice("log.quota", message, "set what the disk can spare"))
}

/// Old output is removed first, even if no one has read it.
fn keep_short(whole: &Whole) -> Option<Advice> {
    let keep = whole.config.log.keep;
    // Output is kept from its last byte on, and a job may print once and then run to its limit.
    let times = whole.config.settings.pools.iter().filter_map(|pool| pool.limits.time);
    let longest = times.max().unwrap_or_default().max(A_LOOK);
    let (keep_text, longest_text) = (format_duration(keep), format_duration(longest));
    let message = format!(
        "log.keep is {keep_text}: of a job that printed something, and then nothing for {longest_text}, it is gone at its end"
    );
    (keep <= longest).then(|| advice("log.keep", message, format!("set well above {longest_text}")))
}

fn log_short(whole: &Whole) -> Option<Advice> {
    let rotate = whole.config.log.rotate;
    // The file in use, and the older ones.
    let all = rotate.size.saturating_mul(u64::from(rotate.keep) + 1);
    let message = format!("the supervisor's log is kept for {} alone: that may be minutes", size(all));
    let is_kept = whole.config.log.dir.is_some();
    (is_kept && all < SHORT_LOG).then(|| {
        advice("log.rotate", message, format!("set a size and keep that make {} or more", size(SHORT_LOG)))
    })
}

fn rotate_unused(whole: &Whole) -> Option<Advice> {
    let message = "log.rotate has no effect without log.dir: there are no files to rotate";
    let log = &whole.config.log;
    let said = log.rotate != LogSettings::default().rotate;
    (said && log.dir.is_none()).then(|| advice("log.rotate", message, "set log.dir, or leave it out"))
}
