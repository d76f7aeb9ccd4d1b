//! What a ledger keeps of jobs of whose ends it does not hear.

use taskvisor::broker::sqlite::Options;
use taskvisor::broker::{Browse, Delivery, Ledger};

use super::*;

#[tokio::test]
async fn a_ledger_forgets_what_waits_elsewhere_after_as_long_as_it_keeps_what_has_ended() {
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
