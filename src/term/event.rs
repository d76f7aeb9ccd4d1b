//! An event in words.

use super::screen::escaped;
use model::{PublishedEvent, What};

/// The subject of an event and what is known of it, each with two blanks before it.
pub fn words(news: &PublishedEvent) -> String {
    let named =
        |name: &str, value: Option<String>| value.map(|value| format!("  {name} {}", escaped(&value)));
    let parts = [
        named("job", news.job.as_ref().map(|job| job.to_string())),
        named("queue", news.queue.as_ref().map(|queue| queue.to_string())),
        named("class", news.class.as_ref().map(|class| class.to_string())),
        named("pool", news.pool.clone()),
        named("by", news.by.clone()),
        news.health.map(|health| {
            let before = news.before.map(|before| format!("{} -> ", before.as_str())).unwrap_or_default();
            format!("  {before}{}", health.as_str())
        }),
        named("worker", news.worker.as_ref().map(ToString::to_string)),
        news.count.map(|count| {
            let of_what = match news.what == What::Ended {
                true => "ends of jobs not confirmed",
                false if news.is_of_many() => "jobs",
                false => "events",
            };
            format!("  {count} {of_what}")
        }),
        news.why.as_ref().map(|why| format!("  {}", escaped(why))),
    ];
    parts.into_iter().flatten().collect()
}
