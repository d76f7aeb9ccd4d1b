//! The contract of brokers as a library: the brokers, and which cases each of them supports.

mod bare;
mod queue_service;
mod reliable;
mod rq;

use broker::Card;
use brokers::ADAPTERS;
use model::verb::Ability;

use crate::support::Scene;

/// Runs each case over each broker that supports its needs. `needs` is for all cases, the list behind a case for that
/// case.
macro_rules! contract {
    (needs $all:tt; $($case:ident $([$($need:ident),*])?),* $(,)?) => {
        $(mod $case {
            fn needs() -> Vec<crate::contract::Need> {
                [needs!($all), $(needs!([$($need),*]))?].concat()
            }
            contract!(@over $case; memory Memory, file File, redis Redis, bare Bare, sqs Sqs, reliable Reliable, rq Rq);
        })*
    };
    (@over $case:ident; $($name:ident $kind:ident),*) => {
        $(#[tokio::test]
        async fn $name() {
            if crate::contract::can(crate::contract::Kind::$kind, &needs()) {
                super::$case(super::Scene::over(crate::contract::Kind::$kind)).await;
            }
        })*
    };
    ($($rest:tt)*) => { contract!(needs []; $($rest)*); };
}

/// A list of needs from names: abilities of cards, and facts of [`Need`].
macro_rules! needs {
    ([$($need:ident),*]) => {{
        #[allow(unused_imports)]
        use {crate::contract::Fact::*, model::verb::Ability::*};
        let needs: Vec<crate::contract::Need> = vec![$($need.into()),*];
        needs
    }};
}

/// The brokers of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The embedded store in memory.
    Memory,
    /// The embedded store in a file.
    File,
    /// Redis with the keys of qless.
    Redis,
    /// A source of a few lines, with the ledger for its history.
    Bare,
    /// A fake of Amazon SQS.
    Sqs,
    /// Redis with the keys of the reliable-worker-queue tutorial.
    Reliable,
    /// Redis with the keys of RQ.
    Rq,
}

impl Kind {
    fn card(self) -> &'static Card {
        let name = match self {
            Kind::Memory | Kind::File => "sqlite",
            Kind::Redis => "redis",
            Kind::Bare => return &bare::CARD,
            Kind::Sqs => "sqs",
            Kind::Reliable => "reliable",
            Kind::Rq => "rq",
        };
        ADAPTERS.iter().map(|kind| kind.card()).find(|card| card.name == name).expect("its card")
    }

    /// What the broker lacks for a case with this need; `None` if it lacks nothing.
    fn without(self, need: Need) -> Option<String> {
        match need {
            Need::Can(ability) => (!self.card().can(ability)).then(|| ability.does().to_owned()),
            Need::Is(fact) => fact.missing_in().contains(&self).then(|| fact.does().to_owned()),
        }
    }
}

/// A requirement of a case: an ability of the card, or a fact.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    Can(Ability),
    Is(Fact),
}

impl From<Ability> for Need {
    fn from(ability: Ability) -> Need {
        Need::Can(ability)
    }
}

impl From<Fact> for Need {
    fn from(fact: Fact) -> Need {
        Need::Is(fact)
    }
}

/// Properties of brokers that their cards do not list.
#[derive(Clone, Copy, Debug)]
pub enum Fact {
    /// The test controls its time.
    Clock,
    /// It hands out the jobs of a queue in the order of their puts.
    Order,
    /// It has any number of queues.
    Queues,
    /// It keeps data of 10 MiB that are no JSON.
    AnyBytes,
    /// It numbers the leases of each job from 1.
    Fences,
    /// It keeps the author of a put.
    PutBy,
    /// It sends wake-ups before the first fetch.
    WakesUnasked,
    /// It distinguishes held jobs from failed ones.
    Holds,
    /// It has one list of all jobs, in the order of their puts.
    Listed,
    /// It accepts ids with any characters.
    AnyId,
    /// Its jobs may be programs.
    Programs,
    /// A job may advance to another queue.
    Stages,
    /// It delays a retry by any time.
    LongDelays,
    /// A lease that ran out is lost, also if the job comes back to the same supervisor.
    Expires,
    /// Its statistics are written by the next commit, and when it is dropped.
    Writes,
    /// It keeps when a job was put.
    Waits,
}

impl Fact {
    fn does(self) -> &'static str {
        match self {
            Fact::Clock => "have its time moved by a test",
            Fact::Order => "give jobs in the order in which they were put",
            Fact::Queues => "have several queues",
            Fact::AnyBytes => "keep data of 10 MiB that are no JSON",
            Fact::Fences => "number the leases of each job from 1",
            Fact::PutBy => "keep who put a job",
            Fact::WakesUnasked => "wake before anybody has asked it for jobs",
            Fact::Holds => "keep apart what needs a person and what has failed",
            Fact::Listed => "list all jobs in the order in which they were put",
            Fact::AnyId => "take ids with any letters",
            Fact::Programs => "run programs",
            Fact::Stages => "have a job go on in another queue",
            Fact::LongDelays => "delay a retry by more than 12 hours",
            Fact::Expires => "take a job away from the supervisor that gets it again",
            Fact::Waits => "keep when a job was put",
            Fact::Writes => "have its statistics written when a test wants it",
        }
    }

    fn missing_in(self) -> &'static [Kind] {
        match self {
            Fact::Clock => &[Kind::Reliable, Kind::Rq],
            Fact::Order => &[Kind::Sqs],
            Fact::Queues => &[Kind::Reliable],
            Fact::AnyBytes => &[Kind::Sqs, Kind::Reliable, Kind::Rq],
            Fact::Fences => &[Kind::Bare, Kind::Sqs, Kind::Reliable, Kind::Rq],
            Fact::PutBy => &[Kind::Sqs, Kind::Reliable, Kind::Rq],
            Fact::Waits => &[Kind::Bare, Kind::Reliable],
            Fact::LongDelays | Fact::Expires | Fact::Writes => &[Kind::Sqs],
            Fact::WakesUnasked => &[Kind::Sqs, Kind::Rq],
            Fact::Holds | Fact::Listed | Fact::AnyId | Fact::Programs | Fact::Stages => &[Kind::Rq],
        }
    }
}

/// Whether a broker supports all of this; prints what it lacks.
pub fn can(kind: Kind, needs: &[Need]) -> bool {
    let lacks: Vec<String> = needs.iter().filter_map(|need| kind.without(*need)).collect();
    let has_all = [Kind::Memory, Kind::File, Kind::Redis].contains(&kind);
    assert!(lacks.is_empty() || !has_all, "no case is skipped over {kind:?}: {lacks:?}");
    if !lacks.is_empty() {
        println!("skipped: {kind:?} cannot {}", lacks.join(", nor "));
    }
    lacks.is_empty()
}

impl Scene {
    /// A new scene with an empty broker.
    pub fn over(kind: Kind) -> Scene {
        match kind {
            Kind::Memory => Scene::memory(),
            Kind::File => Scene::file(),
            Kind::Redis => Scene::redis(),
            Kind::Bare => Scene::elsewhere(bare::start()),
            Kind::Sqs => Scene::elsewhere(queue_service::start()),
            Kind::Reliable => Scene::elsewhere(reliable::start()),
            Kind::Rq => Scene::elsewhere(rq::start()),
        }
    }
}
