//! A ledger's records of jobs whose end it never learns.

use taskvisor::broker::sqlite::Options;
use taskvisor::broker::{Browse, Delivery, Ledger};

use super::*;

#[tokio::test]
async fn ledger_expires_jobs_that_wait_elsewhere_like_ended_jobs() {
    let (clock, directory) = (Clock::default(), tempfile::tempdir().unwrap());
    let options = Options { world: clock.world(), ..Options::default() };
    let ledger = Ledger::open_in(directory.path(), options).unwrap();
    let asked = request(&["q"], 1);
    let (fence, handle) = (Fence(1), String::new());
    let delivery = Delivery { job: job("a"), is_own_id: false, fence, attempt: 1, handle };
    ledger.adopt(&asked, vec![(delivery, asked.workers[0])]).await;
    let back = Verdict::Release { after: Duration::ZERO, counts: None };
    let lease = Lease { job: "a".into(), fence, expires_at: Instant(0) };
    ledger.settle(vec![settlement(&lease, back)]).await;
    for (days, left) in [(6, 1), (2, 0)] {
        clock.forward(DAY * days);
        for _ in 0..9 {
            ledger.renew(Vec::new(), LEASE).await;
            clock.forward(Duration::from_secs(61));
        }
        let jobs = ledger.store().page(&Filter::default(), None).await.unwrap().jobs;
        assert_eq!(jobs.len(), left, "after {days} more days");
    }
}
