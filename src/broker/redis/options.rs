//! Options, under the names that qless has for those that mean the same: values that other programs set hold here too.

use std::time::Duration;

use redis::Value;

use super::broker::Redis;
use super::reply;
use super::verbs::asked;
use crate::broker::{Error, options};
use crate::model::verb::{Done, LoadOptions, OptionShown, SetOption, UnsetOption};
use crate::model::{OptionName, OptionValue, OptionsInForce, QueueName, name_fault};

/// What other programs take for ever, or for all: nothing is kept for no time at all, as their nought would have it.
const ENDLESS: u64 = 1_000_000_000_000;

/// The name in qless; of what it does not know, one in its manner.
fn word(name: OptionName) -> &'static str {
    match name {
        OptionName::Grace => "grace-period",
        OptionName::KeepComplete => "jobs-history",
        OptionName::KeepCompleteCount => "jobs-history-count",
        OptionName::KeepFailed => "keep-failed",
        OptionName::MaxConcurrency => "max-concurrency",
    }
}

/// Whether nought means that all is kept.
fn is_of_keeping(name: OptionName) -> bool {
    match name {
        OptionName::KeepComplete | OptionName::KeepCompleteCount | OptionName::KeepFailed => true,
        OptionName::Grace | OptionName::MaxConcurrency => false,
    }
}

fn key(queue: Option<&QueueName>, name: OptionName) -> String {
    queue.map_or_else(|| word(name).into(), |queue| format!("{queue}-{}", word(name)))
}

/// Which option a key stands for, if any that there is here.
fn named(key: &str) -> Option<(Option<QueueName>, OptionName)> {
    OptionName::ALL.into_iter().find_map(|name| {
        let before = key.strip_suffix(word(name))?;
        match before.strip_suffix('-') {
            Some(queue) if name.is_of_queues() => Some((Some(queue.into()), name)),
            _ => before.is_empty().then_some((None, name)),
        }
    })
}

/// A value as qless has it: lengths of time in seconds.
fn written(name: OptionName, value: OptionValue) -> String {
    let is_endless = matches!(value, OptionValue::Count(0) | OptionValue::Length(Duration::ZERO));
    match value {
        _ if is_endless && is_of_keeping(name) => ENDLESS.to_string(),
        OptionValue::Count(count) => count.to_string(),
        OptionValue::Length(length) => length.as_secs_f64().to_string(),
    }
}

/// A value that somebody has set; `None` if it is no number.
fn read(name: OptionName, text: &str) -> Option<OptionValue> {
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    let number = if !is_of_keeping(name) {
        number.max(0.0)
    } else if number >= ENDLESS as f64 {
        0.0
    } else {
        // Less than the least that can be said here.
        number.max(0.001)
    };
    Some(match name.default_value() {
        OptionValue::Length(_) => OptionValue::Length(Duration::try_from_secs_f64(number).ok()?),
        OptionValue::Count(_) => OptionValue::Count(number.ceil() as u64),
    })
}

async fn in_force(redis: &Redis) -> Result<OptionsInForce, Error> {
    let set = reply::array(asked(redis, "taskvisor.options", |_| {}).await?)?;
    let mut options = OptionsInForce::default();
    for pair in set.chunks_exact(2) {
        let (Some(key), Some(text)) = (reply::text(&pair[0]), reply::text(&pair[1])) else { continue };
        let Some((queue, name)) = named(&key) else { continue };
        if let Some(value) = read(name, &text) {
            options.set(queue, name, &value.to_string()).map_err(Error::Refused)?;
        }
    }
    Ok(options)
}

pub(super) async fn show(redis: &Redis) -> Result<Vec<OptionShown>, Error> {
    Ok(options::shown(&in_force(redis).await?))
}

pub(super) async fn set(redis: &Redis, it: &SetOption) -> Result<Done, Error> {
    let name = it.name.parse().map_err(Error::Refused)?;
    if let Some(fault) = it.queue.as_ref().and_then(|queue| name_fault("a queue's name", queue.as_str())) {
        return Err(Error::Refused(fault));
    }
    let mut options = OptionsInForce::default();
    options.set(it.queue.clone(), name, &it.value).map_err(Error::Refused)?;
    configure(redis, &options, &[]).await
}

pub(super) async fn unset(redis: &Redis, it: &UnsetOption) -> Result<Done, Error> {
    let name: OptionName = it.name.parse().map_err(Error::Refused)?;
    configure(redis, &OptionsInForce::default(), &[key(it.queue.as_ref(), name)]).await
}

pub(super) async fn load(redis: &Redis, it: &LoadOptions) -> Result<Done, Error> {
    let wanted = OptionsInForce::read(&it.options).map_err(Error::Refused)?;
    let mut gone: Vec<String> = Vec::new();
    if it.clear {
        let before = in_force(redis).await?;
        gone.extend(before.iter().map(|(queue, name, _)| key(queue, name)));
    }
    gone.retain(|gone| wanted.iter().all(|(queue, name, _)| *gone != key(queue, name)));
    configure(redis, &wanted, &gone).await
}

/// Sets some and unsets others.
async fn configure(redis: &Redis, set: &OptionsInForce, unset: &[String]) -> Result<Done, Error> {
    let written = asked(redis, "taskvisor.configure", |cmd| {
        cmd.arg(set.iter().count() * 2);
        for (queue, name, value) in set.iter() {
            cmd.arg(key(queue, name)).arg(written(name, value));
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
    fn what_is_kept_for_ever_here_is_not_thrown_away_by_others() {
        let for_ever = OptionValue::Length(Duration::ZERO);
        assert_eq!(written(OptionName::KeepComplete, for_ever), ENDLESS.to_string());
        assert_eq!(read(OptionName::KeepComplete, &ENDLESS.to_string()), Some(for_ever));
        assert_eq!(written(OptionName::Grace, for_ever), "0");
        // Of what others keep for no time it is not said that it is kept for ever.
        assert_ne!(read(OptionName::KeepComplete, "0"), Some(for_ever));
        assert_eq!(read(OptionName::KeepCompleteCount, "0"), Some(OptionValue::Count(1)));
        assert_eq!(read(OptionName::Grace, "soon"), None);
    }
}
