//! Routes new jobs of some classes to another broker, all of them or a share. So a team can move from one broker to
//! another while both run.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Broker, Complaints, Error, Fetch, Health, Notice, Renewal, Settling, Source};
use model::{ClassFilter, Fence, Fetched, JobId, Lease, NewJob, Progress, Settlement};

/// A rule that sends some new jobs to another broker.
pub struct Route {
    /// The classes for which the rule holds.
    pub classes: ClassFilter,
    /// Share of these jobs to route, in percent. The id of the job decides: a put that is repeated goes to the same
    /// broker.
    pub percent: u8,
    /// Opens the other broker at its first job: if that fails, jobs for this broker are not affected.
    open: Box<dyn Fn() -> Result<Broker, Error> + Send + Sync>,
    /// The other broker, once it is open.
    to: OnceLock<Arc<Broker>>,
}

impl Route {
    /// A route to the broker that `open` opens at the first job.
    pub fn new(
        classes: ClassFilter,
        percent: u8,
        open: impl Fn() -> Result<Broker, Error> + Send + Sync + 'static,
    ) -> Route {
        Route { classes, percent, open: Box::new(open), to: OnceLock::new() }
    }

    fn to(&self) -> Result<Arc<Broker>, Error> {
        if let Some(to) = self.to.get() {
            return Ok(to.clone());
        }
        // Two first jobs may both open it: one of the two brokers is kept.
        let to = Arc::new((self.open)()?);
        Ok(self.to.get_or_init(|| to).clone())
    }
}

/// A number below 100, always the same for an id, and evenly distributed.
fn draw(id: Option<&JobId>) -> u8 {
    // Without an id a repeated put has nothing in common with the first.
    let made = Uuid::now_v7();
    let bytes = id.map_or(made.as_bytes().as_slice(), |id| id.as_str().as_bytes());
    // FNV-1a, with its bits mixed once more: ids made one after the other differ in few bits.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u8::try_from((mixed >> 32) % 100).unwrap_or_default()
}

impl Broker {
    /// The same broker, with routes for new jobs.
    #[must_use]
    pub fn with_routes(self, routes: Vec<Route>) -> Broker {
        match routes.is_empty() {
            true => self,
            false => self.with_source(|here| Arc::new(Routed { here, routes })),
        }
    }
}

/// A source that sends some new jobs elsewhere.
struct Routed {
    here: Arc<dyn Source>,
    routes: Vec<Route>,
}

impl Routed {
    /// Index of the route for a new job: that of the first rule for its class, if the draw selects it. A job that
    /// depends on others has none.
    fn way(&self, job: &NewJob) -> Option<usize> {
        let named = self.routes.iter().position(|route| route.classes.matches(&job.class))?;
        // The jobs that it needs are here, and no other broker knows them.
        let goes = job.depends.is_empty() && draw(job.id.as_ref()) < self.routes[named].percent;
        goes.then_some(named)
    }
}

#[async_trait]
impl Source for Routed {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        self.here.fetch(request).await
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        self.here.renew(leases, by).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        self.here.settle(settlements).await
    }

    /// Makes one call to each broker that gets jobs; the answers keep the order of the jobs.
    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let ways: Vec<Option<usize>> = jobs.iter().map(|job| self.way(job)).collect();
        let mut answers: Vec<Option<Result<JobId, Error>>> = jobs.iter().map(|_| None).collect();
        let all = ways.iter().copied().zip(jobs).enumerate();
        let mut all: Vec<(usize, (Option<usize>, NewJob))> = all.collect();
        for way in std::iter::once(None).chain((0..self.routes.len()).map(Some)) {
            let of_way = all.extract_if(.., |(_, (goes, _))| *goes == way);
            let (places, batch): (Vec<usize>, Vec<NewJob>) = of_way.map(|(at, (_, job))| (at, job)).unzip();
            if batch.is_empty() {
                continue;
            }
            let is_all = places.len() == answers.len();
            let put = match way {
                None => self.here.put(batch).await,
                Some(way) => match self.routes[way].to() {
                    Ok(to) => to.put_each(batch).await,
                    Err(error) => Err(error),
                },
            };
            let each = match put {
                Ok(each) => each,
                // Only if no job went another way: else each job has an answer of its own.
                Err(error) if is_all => return Err(error),
                Err(error) => places.iter().map(|_| Err(error.clone())).collect(),
            };
            places.into_iter().zip(each).for_each(|(at, answer)| answers[at] = Some(answer));
        }
        let unsaid = || Err(Error::Failed("the broker did not say what became of the job".into()));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(unsaid)).collect())
    }

    async fn next_notice(&self) -> Notice {
        self.here.next_notice().await
    }

    fn complaints(&self) -> Complaints {
        self.here.complaints()
    }

    fn health(&self) -> Health {
        self.here.health()
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.here.progress(notes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use crate::Card;
    use model::{Exists, Payload};

    static CARD: Card =
        Card { name: "kept", shared: true, batch: 1000, longest_delay: None, data_max: 100, cannot: &[] };

    /// Keeps the ids of the jobs that were put.
    #[derive(Default)]
    struct Kept(Mutex<BTreeSet<JobId>>);

    impl Kept {
        fn count(&self) -> usize {
            self.0.lock().expect("the ids").len()
        }
    }

    #[async_trait]
    impl Source for Kept {
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
            let put = |job: NewJob| {
                let id = job.id.expect("an id");
                let is_new = self.0.lock().expect("the ids").insert(id.clone());
                if is_new || job.exists == Exists::Skip { Ok(id) } else { Err(Error::Exists(id)) }
            };
            Ok(jobs.into_iter().map(put).collect())
        }

        async fn next_notice(&self) -> Notice {
            std::future::pending().await
        }
    }

    fn broker(kept: &Arc<Kept>) -> Broker {
        Broker::new(&CARD, kept.clone())
    }

    fn job(class: &str, id: usize) -> NewJob {
        let id = Some(format!("j{id}").as_str().into());
        NewJob { id, ..NewJob::new("q".into(), class.into(), Payload::Data("1".into())) }
    }

    fn mails() -> ClassFilter {
        ClassFilter { only: vec!["mail.*".into()], except: Vec::new() }
    }

    fn away() -> Route {
        Route::new(mails(), 100, || Err(Error::Failed("it is away".into())))
    }

    /// A broker with a route, and what is kept here and there.
    fn routed(percent: u8) -> (Broker, Arc<Kept>, Arc<Kept>) {
        let (here, there) = (Arc::<Kept>::default(), Arc::<Kept>::default());
        let to = there.clone();
        let route = Route::new(mails(), percent, move || Ok(broker(&to)));
        // The first rule for a class decides.
        (broker(&here).with_routes(vec![route, away()]), here, there)
    }

    #[tokio::test]
    async fn unavailable_route_affects_only_jobs_of_its_classes() {
        let here = broker(&Arc::default()).with_routes(vec![away()]);
        assert_eq!(here.put(vec![job("web.Get", 0)]).await.unwrap(), ["j0".into()]);
        let refused = here.put(vec![job("mail.Send", 1)]).await.unwrap_err();
        assert_eq!(refused, Error::Failed("it is away".into()));
    }

    #[tokio::test]
    async fn routed_jobs_go_to_their_broker_and_ids_keep_their_order() {
        let (broker, here, there) = routed(100);
        let needing = NewJob { depends: vec!["j1".into()], ..job("mail.Send", 3) };
        let jobs = vec![job("mail.Send", 0), job("web.Get", 1), job("mail.Drop", 2), needing];
        let ids = broker.put(jobs).await.unwrap();
        assert_eq!(ids, ["j0".into(), "j1".into(), "j2".into(), "j3".into()]);
        assert_eq!((here.count(), there.count()), (2, 2), "one waits for a job that is here");
    }

    #[tokio::test]
    async fn percentage_routes_a_share_and_the_same_job_always_the_same_way() {
        let (broker, here, there) = routed(20);
        let jobs: Vec<NewJob> = (0..1000).map(|id| job("mail.Send", id)).collect();
        broker.put(jobs.clone()).await.unwrap();
        let moved = there.count();
        assert!((150..250).contains(&moved), "{moved} of 1,000");
        let again = jobs.into_iter().map(|job| NewJob { exists: Exists::Skip, ..job });
        broker.put(again.collect()).await.unwrap();
        assert_eq!((here.count(), there.count()), (1000 - moved, moved));
    }

    #[tokio::test]
    async fn refusal_by_the_routed_broker_names_only_its_jobs() {
        let (routed, _, there) = routed(100);
        broker(&there).put(vec![job("mail.Send", 0)]).await.unwrap();
        let refused = routed.put(vec![job("mail.Send", 0)]).await.unwrap_err();
        assert!(matches!(refused, Error::Exists(_)), "{refused}");
        let partly = routed.put(vec![job("web.Get", 1), job("mail.Send", 0)]).await.unwrap_err();
        assert!(
            matches!(&partly, Error::PartlyPut { put, .. } if *put == [Some("j1".into()), None]),
            "{partly}"
        );
    }
}
