//! A broker: its card, its source of jobs, and its optional faces. All calls pass here: what the card does not list is
//! refused before any code of the broker runs.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Admin, Browse, Card, Error, Feed, Fetch, Health, Notice, Peers, Recovery, Renewal, Settling, Source,
};
use crate::{Complaints, EventBus, failures, search};
use model::verb::{Ability, Answer, Failed, Verb};
use model::{
    Cursor, Fence, Fetched, Filter, Instance, JobCounts, JobId, JobState, Lease, Millis, NewJob, Page,
    Presence, Progress, Settlement, WorkerId,
};

/// A broker of any kind.
pub struct Broker {
    card: &'static Card,
    source: Arc<dyn Source>,
    complaints: Complaints,
    recovery: Option<Arc<dyn Recovery>>,
    admin: Option<Arc<dyn Admin>>,
    browse: Option<Arc<dyn Browse>>,
    feed: Option<Arc<dyn Feed>>,
    peers: Option<Arc<dyn Peers>>,
}

impl Broker {
    /// A broker with a source and no other face.
    pub fn new(card: &'static Card, source: Arc<dyn Source>) -> Broker {
        let complaints = source.complaints();
        Broker {
            card,
            source,
            complaints,
            recovery: None,
            admin: None,
            browse: None,
            feed: None,
            peers: None,
        }
    }

    /// The same, with recovery of what a dead supervisor held.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Arc<dyn Recovery>) -> Broker {
        self.recovery = Some(recovery);
        self
    }

    /// The same, which answers verbs.
    #[must_use]
    pub fn with_admin(mut self, admin: Arc<dyn Admin>) -> Broker {
        self.admin = Some(admin);
        self
    }

    /// The same, with a store that lists jobs and publishes events: the broker's own, or its ledger's.
    #[must_use]
    pub fn with_store<T: Browse + Feed + 'static>(mut self, store: Arc<T>) -> Broker {
        self.browse = Some(store.clone());
        self.feed = Some(store);
        self
    }

    /// The same, with presence of other supervisors.
    #[must_use]
    pub fn with_peers(mut self, peers: Arc<dyn Peers>) -> Broker {
        self.peers = Some(peers);
        self
    }

    /// The same, with a source made from its own, such as one around it.
    #[must_use]
    pub fn with_source(mut self, make: impl FnOnce(Arc<dyn Source>) -> Arc<dyn Source>) -> Broker {
        self.source = make(self.source);
        self
    }

    /// The card of the broker.
    pub fn card(&self) -> &'static Card {
        self.card
    }

    /// Takes leases on jobs: see [`Source::fetch`].
    pub async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        self.source.fetch(request).await
    }

    /// Extends leases: see [`Source::renew`].
    pub async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        self.source.renew(leases, by).await
    }

    /// Applies verdicts: see [`Source::settle`].
    pub async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        self.source.settle(settlements).await
    }

    /// Puts jobs and gives their ids when they are durable. If some were put and others not, the error says which were.
    pub async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Error> {
        let answers = self.put_each(jobs).await?;
        let failed = answers.iter().find_map(|answer| answer.as_ref().err().cloned());
        let is_in_doubt = |answer: &Result<JobId, Error>| matches!(answer, Err(Error::Unanswered(_)));
        let in_doubt = (0..answers.len()).filter(|number| is_in_doubt(&answers[*number])).collect();
        let put: Vec<Option<JobId>> = answers.into_iter().map(Result::ok).collect();
        match failed {
            None => Ok(put.into_iter().flatten().collect()),
            Some(error) if put.iter().all(Option::is_none) => Err(error),
            Some(error) => Err(Error::PartlyPut { put, in_doubt, error: Box::new(error) }),
        }
    }

    /// Calls [`Source::put`], after the card has refused jobs that the broker cannot take.
    pub async fn put_each(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        self.card.takes(&jobs)?;
        self.source.put(jobs).await
    }

    /// Notes the progress of jobs: see [`Source::progress`].
    pub async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.source.progress(notes).await
    }

    /// Waits for the next notice: see [`Source::next_notice`].
    pub async fn next_notice(&self) -> Notice {
        self.source.next_notice().await
    }

    /// Failures of the broker's background tasks, and of what others do for it.
    pub fn complaints(&self) -> &Complaints {
        &self.complaints
    }

    /// Whether the broker works: see [`Source::health`].
    pub fn health(&self) -> Health {
        self.source.health()
    }

    /// Admits this supervisor: see [`Recovery::admit`].
    pub async fn admit(&self, instance: &Instance) -> Result<(), Error> {
        match &self.recovery {
            Some(recovery) => recovery.admit(instance).await,
            None => Ok(()),
        }
    }

    /// Calls [`Recovery::recover`]. Without that face nothing is released: each lease expires by itself.
    pub async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        match &self.recovery {
            Some(recovery) => recovery.recover(instance, keep).await,
            None => Ok(0),
        }
    }

    /// The leases of an instance: see [`Recovery::held_by`].
    pub async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        match &self.recovery {
            Some(recovery) => recovery.held_by(instance).await,
            None => Ok(Vec::new()),
        }
    }

    /// Gives the broker the bus for its events: see [`Feed::publish`].
    pub fn publish(&self, room: EventBus) {
        if let Some(feed) = &self.feed {
            feed.publish(room);
        }
    }

    /// Waits until every later event will be delivered: see [`Feed::hear`].
    pub async fn hear(&self) {
        if let Some(feed) = &self.feed {
            feed.hear().await;
        }
    }

    /// Publishes this supervisor's presence: see [`Peers::sign`].
    pub fn sign(&self, sign: Presence) {
        if let Some(peers) = &self.peers {
            peers.sign(sign);
        }
    }

    /// The publisher of this supervisor's presence, if supervisors share the broker.
    pub fn peers(&self) -> Option<&dyn Peers> {
        self.peers.as_deref()
    }

    /// Takes this supervisor off the list: see [`Peers::leave`].
    pub async fn leave(&self) -> Result<(), Error> {
        match &self.peers {
            Some(peers) => peers.leave().await,
            None => Ok(()),
        }
    }

    /// Carries out a verb: see [`Admin::ask`].
    pub async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        self.card.require(verb.needs())?;
        if let Verb::List(filter) = verb {
            return Ok(Answer::List(self.list(filter).await?));
        }
        // Without a filter a broker may have the groups in an index of its own.
        if let Verb::Failed(asked) = &verb
            && *asked != Failed::default()
        {
            let browse = self.browse.as_deref().ok_or_else(|| self.without_jobs(Ability::List))?;
            return Ok(Answer::Failed(failures::failure_groups(browse, asked).await?));
        }
        match &self.admin {
            Some(admin) => admin.ask(verb, by).await,
            None => Err(self.without_jobs(verb.needs())),
        }
    }

    /// One page of a list or of a search: see [`Browse::page`].
    pub async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
        search::page(self.browse(Ability::List)?, filter, at).await
    }

    /// Counts the jobs that a filter selects, the newest first, up to its limit or [`JobCounts::MOST`].
    pub async fn count_jobs(&self, filter: &Filter, now: Millis) -> Result<JobCounts, Error> {
        let limit = if filter.limit == 0 { JobCounts::MOST } else { filter.limit.min(JobCounts::MOST) };
        search::count(self.browse(Ability::List)?, &Filter { limit, ..filter.clone() }, now).await
    }

    /// How many tasks have ids that begin so: see [`Browse::count_tasks`].
    pub async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error> {
        self.browse(Ability::List)?.count_tasks(begins, states).await
    }

    /// Waits for a job's end: see [`Browse::ended`].
    pub async fn ended(&self, id: JobId) -> Result<JobState, Error> {
        self.browse(Ability::Show)?.ended(id).await
    }

    pub(super) fn browse(&self, ability: Ability) -> Result<&dyn Browse, Error> {
        self.card.require(ability)?;
        self.browse.as_deref().ok_or_else(|| self.without_jobs(ability))
    }

    /// The error when the card promises an ability that no face has.
    fn without_jobs(&self, ability: Ability) -> Error {
        Error::Unsupported {
            broker: self.card.name,
            ability,
            instead: "it keeps no jobs that could be asked for",
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use model::Payload;
    use model::verb::ShowFleet;

    static BARE: Card = Card {
        name: "bare",
        shared: true,
        batch: 10,
        longest_delay: Some(Duration::from_secs(900)),
        data_max: 9,
        cannot: &[
            (Ability::List, "its server cannot list: look at its console"),
            (Ability::Depend, "put the second job from the first"),
        ],
    };

    /// Puts every second job; of the others, every second one is not answered.
    struct Bare;

    #[async_trait]
    impl Source for Bare {
        async fn fetch(&self, _: Fetch) -> Result<Vec<Fetched>, Error> {
            Ok(Vec::new())
        }

        async fn renew(&self, _: Vec<Lease>, _: Duration) -> Result<Vec<Renewal>, Error> {
            Ok(Vec::new())
        }

        async fn settle(&self, _: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
            Ok(Vec::new())
        }

        async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
            let full = || Error::Failed("it is full".into());
            let put = |at: usize| match at % 4 {
                1 => Err(full()),
                3 => Err(Error::Unanswered("it is silent".into())),
                _ => Ok(JobId::from(format!("j{at}").as_str())),
            };
            Ok((0..jobs.len()).map(put).collect())
        }

        async fn next_notice(&self) -> Notice {
            std::future::pending().await
        }
    }

    fn bare() -> Broker {
        Broker::new(&BARE, Arc::new(Bare))
    }

    fn job() -> NewJob {
        NewJob::new("q".into(), "c".into(), Payload::Data("1".into()))
    }

    #[tokio::test]
    async fn verbs_missing_on_the_card_are_refused_with_an_alternative() {
        let refused = bare().ask(Verb::List(Filter::default()), String::new()).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the broker bare cannot list jobs: its server cannot list: look at its console"
        );
        assert_eq!(bare().page(&Filter::default(), None).await.unwrap_err(), refused);
        let needing = bare().put(vec![NewJob { depends: vec!["a".into()], ..job() }]).await.unwrap_err();
        assert_eq!(
            needing.to_string(),
            "the broker bare cannot have a job wait for others: put the second job from the first"
        );
        let large = NewJob::new("q".into(), "c".into(), Payload::Data("1234567890".into()));
        let large = bare().put(vec![large]).await.unwrap_err();
        assert!(matches!(&large, Error::Refused(why) if why.contains("9 bytes at most")), "{large}");
        let late = bare().put(vec![NewJob { delay: Duration::from_secs(901), ..job() }]).await.unwrap_err();
        assert!(matches!(&late, Error::Refused(why) if why.contains("900 s at most")), "{late}");
    }

    #[tokio::test]
    async fn verbs_on_the_card_without_an_implementation_are_refused() {
        let refused = bare().tell(ShowFleet { jobs: false }, "").await.unwrap_err();
        assert!(matches!(refused, Error::Unsupported { ability: Ability::Fleet, .. }), "{refused}");
        let refused =
            bare().tell(Failed { queue: Some("q".into()), ..Failed::default() }, "").await.unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    }

    #[tokio::test]
    async fn partly_failed_put_reports_the_jobs_that_were_put() {
        let partly = bare().put(vec![job(), job(), job()]).await.unwrap_err();
        assert_eq!(partly.to_string(), "2 of 3 jobs were put (j0, j2), the others were not: it is full");
        assert!(
            matches!(partly, Error::PartlyPut { put, .. } if put == [Some("j0".into()), None, Some("j2".into())])
        );
        assert_eq!(bare().put(vec![job()]).await.unwrap(), ["j0".into()]);
        let partly = bare().put(vec![job(), job(), job(), job()]).await.unwrap_err();
        assert!(matches!(&partly, Error::PartlyPut { in_doubt, .. } if in_doubt == &[3]), "{partly}");
    }

    #[tokio::test]
    async fn broker_without_faces_recovers_nothing_and_publishes_nothing() {
        let bare = bare();
        assert_eq!(bare.recover("me".into(), Vec::new()).await, Ok(0));
        assert_eq!(bare.held_by("me".into()).await, Ok(Vec::new()));
        assert_eq!((bare.admit(&"me".into()).await, bare.leave().await), (Ok(()), Ok(())));
        bare.publish(EventBus::default());
        bare.hear().await;
    }
}
