//! Files of an open store that another program moves.

use super::*;

/// Waits until the store has noticed the move; returns its error.
async fn refusal(store: &Broker) -> String {
    for _ in 0..10_000 {
        if let Err(error) = store.put(vec![NewJob { id: None, ..job("") }]).await {
            return error.to_string();
        }
    }
    panic!("jobs are put as if nothing had happened");
}

#[tokio::test]
async fn store_with_moved_files_acknowledges_nothing_until_they_are_back() {
    for suffix in ["", "-wal"] {
        let (directory, path) = place();
        let store = open(&path).unwrap();
        store.put(vec![job("a")]).await.unwrap();
        let file = directory.path().join(format!("store.db{suffix}"));
        let away = directory.path().join("away");
        fs::rename(&file, &away).unwrap();
        let said = refusal(&store).await;
        assert!(said.contains(file.to_str().unwrap()) && said.contains("moved or removed"), "{said}");
        // A put that was under way may or may not be done, and its error says so behind the same words.
        let trouble = store.health().trouble.unwrap_or_default();
        assert!(!trouble.is_empty() && said.starts_with(&trouble), "{trouble}\n{said}");
        assert!(store.fetch(request(&["q"], 1)).await.is_err());
        assert!(store.get("a".into()).await.unwrap().is_some(), "it can be read");
        fs::rename(&away, &file).unwrap();
        while store.health().trouble.is_some() {
            store.next_notice().await;
        }
        store.put(vec![job("b")]).await.unwrap();
        drop(store);
        let jobs = open(&path).unwrap().counts().await.unwrap()[&"q".into()].jobs.clone();
        assert!(jobs[&JobState::Waiting] >= 2, "{suffix}: {jobs:?}");
    }
}

#[tokio::test]
async fn copy_in_place_of_the_store_is_detected() {
    let (directory, path) = place();
    let store = open(&path).unwrap();
    let [link, copy] = ["link", "copy"].map(|name| directory.path().join(name));
    fs::hard_link(&path, &link).unwrap();
    fs::copy(&path, &copy).unwrap();
    store.put(vec![job("a")]).await.unwrap();
    fs::rename(&copy, &path).unwrap();
    assert!(refusal(&store).await.contains("another file was put in its place"));
    fs::rename(&link, &path).unwrap();
    while store.health().trouble.is_some() {
        store.next_notice().await;
    }
    store.put(vec![job("b")]).await.unwrap();
}

/// A moved directory causes no file event: the periodic look for old jobs detects it.
#[tokio::test]
async fn missing_store_directory_is_detected_within_a_minute_of_work() {
    let directory = tempfile::tempdir().unwrap();
    let (here, there) = (directory.path().join("here"), directory.path().join("there"));
    let clock = Clock::default();
    let options = Options { world: clock.world(), ..Options::default() };
    let store = Broker::from(Sqlite::open(here.join("store.db"), options).unwrap());
    fs::rename(&here, &there).unwrap();
    clock.forward(Duration::from_secs(60));
    assert!(refusal(&store).await.contains("here/store.db: it was moved or removed"));
}
