//! `values`: the values with which a shell completes a word, one a line. Prints nothing where it cannot know them.

use std::collections::HashSet;
use std::time::Duration;

use super::access::Access;
use super::access::elsewhere::client;
use super::args::reference::{Kind, Values};
use super::term::screen::print;
use config::Config;
use failure::{Failure, exit};
use model::verb::{ClassStats, ListRecurring, Queues, ShowOptions};
use model::{JobState, Status};

/// How long a shell may wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prints the values for completion, one a line.
pub(super) async fn values(config: &Config, args: &Values) -> Result<u8, Failure> {
    let found = tokio::time::timeout(PATIENCE, find(config, args.of)).await;
    let mut words = found.ok().and_then(Result::ok).unwrap_or_default();
    // A shell would split it, or a terminal would interpret it.
    let is_word =
        |word: &String| word.chars().all(|letter| letter.is_ascii_graphic() && !"\"'\\$`".contains(letter));
    let mut seen = HashSet::new();
    words.retain(|word| is_word(word) && seen.insert(word.clone()));
    print(&words.iter().map(|word| format!("{word}\n")).collect::<String>())?;
    Ok(exit::OK)
}

async fn find(config: &Config, kind: Kind) -> Result<Vec<String>, Failure> {
    let status = async || -> Result<Status, Failure> { Ok(client(config)?.status().await?) };
    Ok(match kind {
        Kind::Pools => status().await?.pools.into_iter().map(|pool| pool.name).collect(),
        Kind::Slots => {
            let pools = status().await?.pools.into_iter();
            pools.flat_map(|pool| pool.slots).map(|slot| slot.slot.to_string()).collect()
        }
        Kind::States => JobState::ALL.iter().map(ToString::to_string).collect(),
        Kind::Queues => {
            let queues = Access::open(config).await?.ask(Queues {}).await?;
            queues.into_keys().map(|queue| queue.to_string()).collect()
        }
        Kind::Options => {
            let options = Access::open(config).await?.ask(ShowOptions::default()).await?;
            options.into_iter().map(|option| option.name.to_string()).collect()
        }
        Kind::Classes => {
            // No broker lists its classes: these had jobs within a week.
            let asked = ClassStats { days: Some(7), ..ClassStats::default() };
            let classes = Access::open(config).await?.ask(asked).await?;
            classes.into_iter().filter_map(|class| Some(class.class?.to_string())).collect()
        }
        Kind::Recurring => {
            let recurring = Access::open(config).await?.ask(ListRecurring {}).await?;
            recurring.into_iter().map(|one| one.recurring.name.to_string()).collect()
        }
    })
}
