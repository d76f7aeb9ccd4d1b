//! Reads of outputs: how many there are at a time.

use std::sync::mpsc::{TryRecvError, channel};

use super::*;

#[tokio::test]
async fn reads_leave_threads_to_others_also_when_their_clients_have_gone() {
    let (begin, begun) = channel();
    let read = || {
        let (begin, (release, released)) = (begin.clone(), channel::<()>());
        let reader = Reader::new("/nonexistent".into(), "/nonexistent/x.log".into());
        let act = move |_: &mut Reader| {
            begin.send(()).ok();
            released.recv().ok();
            Ok(())
        };
        (tokio::spawn(on_disk(reader, act)), release)
    };
    let mut reads: Vec<_> = (0..5).map(|_| read()).collect();
    let next = async || {
        while let Err(TryRecvError::Empty) = begun.try_recv() {
            tokio::task::yield_now().await;
        }
    };
    for _ in 0..4 {
        next().await;
    }
    reads.iter().take(4).for_each(|(task, _)| task.abort());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(READS.available_permits(), 0, "the four go on");
    drop(reads.remove(0));
    next().await;
    drop(begin);
}
