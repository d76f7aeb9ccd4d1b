//! The size of the WAL.

use super::*;

/// Puts a job of one megabyte.
async fn put(store: &Broker) {
    let data = Payload::Data(Bytes(vec![7; 1 << 20]));
    store.put(vec![NewJob { id: None, payload: data, ..job("") }]).await.unwrap();
}

fn size(store: &Broker) -> u64 {
    store.health().wal_bytes.unwrap()
}

/// Another program that keeps a read transaction open.
fn reader(path: &Path) -> Connection {
    let reader = Connection::open(path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM job;").unwrap();
    reader
}

#[tokio::test]
async fn the_wal_stays_small_beside_readers() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    let idle = Connection::open(&path).unwrap();
    let count = || idle.query_row("SELECT count(*) FROM job", [], |row| row.get::<_, i64>(0)).unwrap();
    let mut largest = 0;
    for round in 0..60 {
        put(&store).await;
        assert_eq!(count(), round + 1);
        store.list(Filter { limit: 9, ..Filter::default() }).await.unwrap();
        largest = largest.max(size(&store));
    }
    assert!(largest < 24 << 20, "the WAL grew to {largest}");
}

#[tokio::test]
async fn the_wal_shrinks_once_a_long_reader_is_gone() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    let reader = reader(&path);
    for _ in 0..30 {
        put(&store).await;
    }
    assert!(size(&store) > 24 << 20);
    reader.execute_batch("COMMIT").unwrap();
    for _ in 0..12 {
        put(&store).await;
    }
    assert!(size(&store) <= 17 << 20, "{}", size(&store));
}

#[tokio::test]
async fn reader_that_lets_the_wal_grow_is_reported_until_it_is_gone() {
    let (_directory, path) = place();
    let clock = Clock::default();
    let store =
        Broker::from(Sqlite::open(&path, Options { world: clock.world(), ..Options::default() }).unwrap());
    let reader = reader(&path);
    let mut puts = 0;
    while store.health().concern.is_none() {
        assert!(size(&store) < 70 << 20, "nothing is said of {} bytes", size(&store));
        put(&store).await;
        puts += 1;
    }
    assert!(puts > 48, "said after {puts} MB");
    let said = store.health().concern.unwrap();
    assert!(said.contains("store.db-wal") && said.contains("fuser") && said.contains("MB"), "{said}");
    reader.execute_batch("COMMIT").unwrap();
    // No writes follow: the WAL is truncated though a reader is open.
    clock.forward(Duration::from_secs(2));
    store.get("a".into()).await.unwrap();
    store.get("a".into()).await.unwrap();
    assert_eq!((store.health().concern, size(&store)), (None, 0));
}
