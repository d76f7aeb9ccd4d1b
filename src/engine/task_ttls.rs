//! Sets how long ended tasks are kept. These are options of the broker, which hold for all its jobs.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use broker::{Broker, Error};
use model::verb::SetOption;
use model::{OptionName, format_duration};
use wq::Settings;

/// Wait after a failure, and the limit up to which it is doubled.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What fails, in complaints.
const UNSET: &str = "failed to set how long ended tasks are kept, they are kept as before";

/// Sets the options, as a person would. What fails is tried again until it works.
pub(super) async fn set_ttls(broker: Arc<Broker>, tasks: Arc<Settings>) {
    let length = |name, ttl: Option<Duration>| ttl.map(|ttl| (name, format_duration(ttl)));
    // Only their age counts: the limit of their number would remove them earlier.
    let any_number = tasks.success_ttl.map(|_| (OptionName::KeepCompleteCount, "0".to_owned()));
    let wanted = [
        length(OptionName::KeepComplete, tasks.success_ttl),
        any_number,
        length(OptionName::KeepFailed, tasks.failure_ttl),
    ];
    for (name, value) in wanted.into_iter().flatten() {
        set(&broker, SetOption { name: name.as_str().into(), value, queue: None }).await;
    }
}

async fn set(broker: &Broker, option: SetOption) {
    let mut wait = AGAIN.0;
    loop {
        let complaints = broker.complaints();
        match broker.tell(option.clone(), "the settings").await {
            Ok(_) => return complaints.well_for(UNSET, &option.name, clock::now()),
            // The pages of these brokers say so.
            Err(error @ Error::Unsupported { .. }) => return warn!("{UNSET}: {}: {error}", option.name),
            Err(error) => {
                let error = format!("{}: {error}", option.name);
                complaints.wrong_for(UNSET, &option.name, &error, clock::now());
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::failing::tests::sick;
    use super::*;
    use broker::LASTS;

    #[tokio::test]
    async fn ttls_that_cannot_be_set_are_told_and_set_when_the_broker_works() {
        let (broker, is_sick) = sick();
        let tasks = Settings { success_ttl: Some(Duration::from_secs(60)), ..Settings::default() };
        let setting = tokio::spawn(set_ttls(broker.clone(), Arc::new(tasks)));
        let told = || broker.complaints().told(clock::now());
        let began = clock::now();
        while told().is_empty() {
            assert!(clock::now().since(began) < 8 * LASTS && !setting.is_finished());
            tokio::time::sleep(LASTS / 100).await;
        }
        assert_eq!((told()[0].what.as_str(), told()[0].how.as_str()), (UNSET, "keep_complete: cannot: sick"));
        is_sick(false);
        setting.await.unwrap();
        assert_eq!(told(), []);
    }
}
