//! The forecasts of `taskvisor simulate` for SQS compared with the real program.

use std::time::Duration;

use model::Order;

use crate::replay::{Pair, Replay, workload};

/// Little work: what the jobs wait for are the receives.
const LOAD: &str = "\
duration: 8s
queues:
  mail: {rate: 3/s, run_time: {mean: 200ms}}
  web: {rate: 2/s, run_time: {mean: 200ms}}
";

/// Two processors run other tests meanwhile, and each way within the program may take some tenths of a second longer
/// than in the forecast. So a call takes a whole one, and the band is wide: still a forecast that knows no receives is
/// far beyond it. `cargo bench --bench simulate -- --against` has five workloads and narrow bands.
#[test]
fn jobs_wait_on_sqs_as_long_as_simulate_foretells() {
    let call = Duration::from_secs(1);
    let (workload, order) = (workload(LOAD, 7), Order::RoundRobin);
    let replay = Replay { workload, order, workers: 4, call, latency: Duration::from_millis(20) };
    let seen = replay.run();
    let fits = |pairs: Vec<Pair>| {
        let said = |pair: &Pair| {
            let Pair { queue, figure, foretold, real, .. } = pair;
            format!("{queue} {figure}: {real:.2} s for {foretold:.2} s")
        };
        let is_beyond = |pair: &&Pair| !pair.fits(0.3, Duration::from_millis(500));
        pairs.iter().filter(is_beyond).map(said).collect::<Vec<_>>()
    };
    let beyond = fits(Replay::pairs(&replay.foretold(), &seen));
    assert!(beyond.is_empty(), "{beyond:?}");
    let beyond = fits(Replay::pairs(&replay.foretold_of_the_store(), &seen));
    assert!(!beyond.is_empty(), "the receives made no difference: this test shows nothing");
}
