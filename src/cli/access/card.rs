//! What the broker can do, by the supervisor or by the broker itself.

use super::Access;
use broker::Card;
use failure::{Failure, exit};
use model::verb::Ability;

impl Access {
    /// The card of the broker, if it is known.
    pub(crate) async fn card(&self) -> Result<Option<&'static Card>, Failure> {
        match self {
            Access::Store(store) => Ok(Some(store.card())),
            Access::Spool(_) => Ok(None),
            Access::Api(api, config) => match api.broker().await {
                Ok(shown) => Ok(card_of(shown)),
                Err(error) => match Access::after(config, error).await? {
                    Access::Store(store) => Ok(Some(store.card())),
                    Access::Spool(_) => Ok(None),
                    Access::Api(api, _) => Ok(card_of(api.broker().await?)),
                },
            },
        }
    }

    /// Whether all jobs of a batch can be found: the broker keeps its name, and shows jobs before they are taken.
    pub(crate) async fn shows_batches(&self) -> Result<bool, Failure> {
        let can = |card: &Card| card.can(Ability::Tag) && card.can(Ability::ShowWaiting);
        Ok(self.card().await?.is_some_and(can))
    }

    /// The name of the broker, if it does not show the jobs of a batch that wait there.
    pub(crate) async fn hides_waiting(&self) -> Result<Option<&'static str>, Failure> {
        let card = self.card().await?;
        Ok(card.filter(|card| !card.can(Ability::ShowWaiting)).map(|card| card.name))
    }

    /// Refuses to wait for jobs that another host may take without a word: the wait might have no end.
    pub(crate) async fn require_waits(&self) -> Result<(), Failure> {
        let Some(card) = self.card().await?.filter(|card| !card.can(Ability::ShowWaiting)) else {
            return Ok(());
        };
        let message = format!(
            "nothing was put: another host may take the job, and {} does not tell how it ends",
            card.name
        );
        Err(Failure::new(exit::UNSUPPORTED, message)
            .hint("put it without --wait; once a job runs on this host: taskvisor job wait ID"))
    }
}

/// The card of a broker that is shown like this.
fn card_of(shown: Option<String>) -> Option<&'static Card> {
    Some(brokers::address(&shown?).ok()?.card())
}
