//! Sets how long ended tasks are kept. These are options of the broker, which hold for all its jobs.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use broker::Broker;
use model::verb::SetOption;
use model::{OptionName, format_duration};
use wq::Settings;

/// Sets the options, as a person would.
pub(super) async fn set_ttls(broker: Arc<Broker>, tasks: Arc<Settings>) {
    let length = |name, ttl: Option<Duration>| ttl.map(|ttl| (name, format_duration(ttl)));
    let any_number = tasks.success_ttl.map(|_| (OptionName::KeepCompleteCount, "0".to_owned()));
    let wanted = [
        length(OptionName::KeepComplete, tasks.success_ttl),
        any_number,
        length(OptionName::KeepFailed, tasks.failure_ttl),
    ];
    for (name, value) in wanted.into_iter().flatten() {
        let option = SetOption { name: name.as_str().into(), value, queue: None };
        if let Err(error) = broker.tell(option, "the settings").await {
            warn!("failed to set the option {name}, tasks are kept as before: {error}");
        }
    }
}
