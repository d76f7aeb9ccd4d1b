//! Options, under the names that qless has for the same meaning: so values that other programs set hold here too.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use super::ask::asked;
use super::shared::Shared;
use super::{others, reply};
use broker::Error;
use common::options;
use model::verb::{Done, LoadOptions, OptionShown, SetOption, UnsetOption};
use model::{OptionName, OptionValue, Options, OptionsInForce, QueueName, name_fault};

/// The value by which other programs keep jobs for ever, or all of them: a zero would mean to keep nothing.
const ENDLESS: u64 = 1_000_000_000_000;

/// The name of an option in qless; for an unknown one, a name in its style.
fn word(name: OptionName) -> &'static str {
    match name {
        OptionName::Grace => "grace-period",
        OptionName::KeepComplete => "jobs-history",
        OptionName::KeepCompleteCount => "jobs-history-count",
        OptionName::KeepFailed => "keep-failed",
        OptionName::MaxConcurrency => "max-concurrency",
    }
}

/// Whether zero means that all is kept.
fn is_of_keeping(name: OptionName) -> bool {
    match name {
        OptionName::KeepComplete | OptionName::KeepCompleteCount | OptionName::KeepFailed => true,
        OptionName::Grace | OptionName::MaxConcurrency => false,
    }
}

fn key(queue: Option<&QueueName>, name: OptionName) -> String {
    queue.map_or_else(|| word(name).into(), |queue| format!("{queue}-{}", word(name)))
}

/// The option that a key stands for, if it is known here.
fn named(key: &str) -> Option<(Option<QueueName>, OptionName)> {
    OptionName::ALL.into_iter().find_map(|name| {
        let before = key.strip_suffix(word(name))?;
        match before.strip_suffix('-') {
            Some(queue) if name.is_of_queues() => Some((Some(queue.into()), name)),
            _ => before.is_empty().then_some((None, name)),
        }
    })
}

/// A value in the form of qless: durations in seconds.
fn written(name: OptionName, value: OptionValue) -> String {
    let is_endless = matches!(value, OptionValue::Count(0) | OptionValue::Length(Duration::ZERO));
    match value {
        _ if is_endless && is_of_keeping(name) => ENDLESS.to_string(),
        OptionValue::Count(count) => count.to_string(),
        OptionValue::Length(length) => length.as_secs_f64().to_string(),
    }
}

/// Reads a value that was set; `None` if it is no number.
fn read(name: OptionName, text: &str) -> Option<OptionValue> {
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    let number = if !is_of_keeping(name) {
        number.max(0.0)
    } else if number >= ENDLESS as f64 {
        0.0
    } else {
        // The smallest duration that this program can write.
        number.max(0.001)
    };
    Some(match name.default_value() {
        OptionValue::Length(_) => OptionValue::Length(Duration::try_from_secs_f64(number).ok()?),
        OptionValue::Count(_) => OptionValue::Count(number.ceil() as u64),
    })
}

/// Options that are set, by their names in Redis.
type Set = BTreeMap<String, String>;

async fn all_set(redis: &Shared) -> Result<Set, Error> {
    let set = reply::array(asked(redis, "taskvisor.options", |_| {}).await?)?;
    let pairs = set.chunks_exact(2);
    Ok(pairs.filter_map(|pair| Some((reply::text(&pair[0])?, reply::text(&pair[1])?))).collect())
}

/// Takes out of `set` the options that have a name here; the others stay in `set`.
fn take_ours(set: &mut Set) -> Result<OptionsInForce, Error> {
    let mut options = OptionsInForce::default();
    for (key, text) in std::mem::take(set) {
        let ours = named(&key).and_then(|(queue, name)| Some((queue, name, read(name, &text)?)));
        match ours {
            Some((queue, name, value)) => {
                options.set(queue, name, &value.to_string()).map_err(Error::Refused)?;
            }
            None => {
                set.insert(key, text);
            }
        }
    }
    Ok(options)
}

pub(super) async fn show(redis: &Shared) -> Result<Vec<OptionShown>, Error> {
    let mut set = all_set(redis).await?;
    let mut all = options::shown(&take_ours(&mut set)?);
    all.extend(others::shown(&set));
    // Stable: those of all queues come first, and each part keeps its order.
    all.sort_by_key(|option| option.queue.is_some());
    Ok(all)
}

/// Reads the name of an option that has a name here.
fn ours(text: &str) -> Result<OptionName, Error> {
    text.parse().map_err(|why: String| match named(text) {
        Some((None, name)) => Error::Refused(format!("option {text} is called {name} here")),
        _ => Error::Refused(format!("{why}, and of qless {}", others::names())),
    })
}

/// The names and values of options in Redis.
fn pairs(options: &OptionsInForce) -> Vec<(String, String)> {
    options.iter().map(|(queue, name, value)| (key(queue, name), written(name, value))).collect()
}

pub(super) async fn set(redis: &Shared, it: &SetOption) -> Result<Done, Error> {
    if let Some(fault) = it.queue.as_ref().and_then(|queue| name_fault("a queue's name", queue.as_str())) {
        return Err(Error::Refused(fault));
    }
    if let Some(other) = others::find(&it.name) {
        return configure(redis, &[other.set(it.queue.as_ref(), &it.value)?], &[]).await;
    }
    let mut options = OptionsInForce::default();
    options.set(it.queue.clone(), ours(&it.name)?, &it.value).map_err(Error::Refused)?;
    configure(redis, &pairs(&options), &[]).await
}

/// Unsets an option, also one that another program has set, by its name in Redis.
pub(super) async fn unset(redis: &Shared, it: &UnsetOption) -> Result<Done, Error> {
    let queue = it.queue.as_ref();
    let other = others::key(queue, &it.name);
    let is_other = others::find(&it.name).is_some() || all_set(redis).await?.contains_key(&other);
    let gone = if is_other { other } else { key(queue, ours(&it.name)?) };
    configure(redis, &[], &[gone]).await
}

pub(super) async fn load(redis: &Shared, it: &LoadOptions) -> Result<Done, Error> {
    let known = Options { others: BTreeMap::new(), ..it.options.clone() };
    let mut wanted: Set = it.options.others.clone();
    wanted.extend(pairs(&OptionsInForce::read(&known).map_err(Error::Refused)?));
    let before = if it.clear { all_set(redis).await? } else { Set::new() };
    let gone: Vec<String> = before.into_keys().filter(|key| !wanted.contains_key(key)).collect();
    configure(redis, &wanted.into_iter().collect::<Vec<_>>(), &gone).await
}

/// Sets some options and unsets others.
async fn configure(redis: &Shared, set: &[(String, String)], unset: &[String]) -> Result<Done, Error> {
    let written = asked(redis, "taskvisor.configure", |cmd| {
        cmd.arg(set.len() * 2);
        for (key, value) in set {
            cmd.arg(key).arg(value);
        }
        cmd.arg(unset.len()).arg(unset);
    });
    written.await.map(|_: Value| Done {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_a_key_that_is_read_back() {
        let mail = QueueName::from("night-mail");
        for name in OptionName::ALL {
            assert_eq!(named(&key(None, name)), Some((None, name)));
            let of_queue = named(&key(Some(&mail), name));
            assert_eq!(of_queue, name.is_of_queues().then(|| (Some(mail.clone()), name)));
            let value = name.default_value();
            assert_eq!(read(name, &written(name, value)), Some(value));
        }
        assert_eq!(named("application"), None);
        assert_eq!(named("mail-application"), None);
    }

    #[test]
    fn keep_for_ever_is_stored_as_a_huge_value_for_other_clients() {
        let for_ever = OptionValue::Length(Duration::ZERO);
        assert_eq!(written(OptionName::KeepComplete, for_ever), ENDLESS.to_string());
        assert_eq!(read(OptionName::KeepComplete, &ENDLESS.to_string()), Some(for_ever));
        assert_eq!(written(OptionName::Grace, for_ever), "0");
        // A zero set by another client must not be shown as keep for ever.
        assert_ne!(read(OptionName::KeepComplete, "0"), Some(for_ever));
        assert_eq!(read(OptionName::KeepCompleteCount, "0"), Some(OptionValue::Count(1)));
        assert_eq!(read(OptionName::Grace, "soon"), None);
    }
}
