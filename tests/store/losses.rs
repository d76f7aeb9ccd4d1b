//! A store that has lost what it had acknowledged.

use std::path::PathBuf;
use std::process::Child;

use super::*;

/// Starts a process that puts jobs and completes some.
fn churn(path: &Path) -> Child {
    helper("churn", path, &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills it once it has put that many jobs; gives how many it has said.
fn kill_after(mut child: Child, jobs: usize) -> usize {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut puts = lines.filter(|line| line.starts_with("put "));
    let said = puts.by_ref().take(jobs).count();
    child.kill().unwrap();
    child.wait().unwrap();
    said + puts.count()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    format!("{}{suffix}", path.display()).into()
}

fn concern(path: &Path) -> Option<String> {
    open(path).unwrap().health().concern
}

#[tokio::test]
async fn cut_or_removed_wal_is_said_with_the_jobs_that_it_held_until_a_person_has_seen_it() {
    for removed in [true, false] {
        let (_directory, path) = place();
        // The schema goes from the WAL into the file.
        drop(open(&path).unwrap());
        let puts = kill_after(churn(&path), 100);
        let wal = beside(&path, "-wal");
        match removed {
            true => fs::remove_file(&wal).unwrap(),
            false => fs::File::options().write(true).open(&wal).unwrap().set_len(300_000).unwrap(),
        }
        let said = concern(&path).expect("it is noticed");
        for word in [path.to_str().unwrap(), "has lost", "jobs that it had acknowledged", "store.db-loss"] {
            assert!(said.contains(word), "{removed}: no {word:?} in {said}");
        }
        let (_, count) = said.split_once(" has lost ").unwrap();
        let numbers: Vec<usize> = count.split(' ').filter_map(|word| word.parse().ok()).take(2).collect();
        // The last may not have been said any more.
        let [lost, all] = numbers[..] else { panic!("{said}") };
        assert!(lost <= all && (puts..puts + 4).contains(&all), "{puts} were said: {said}");
        assert!(lost > 20, "{said}");
        let store = open(&path).unwrap();
        store.put(vec![job("again")]).await.unwrap();
        drop(store);
        assert_eq!(concern(&path), Some(said), "it is not forgotten");
        fs::remove_file(beside(&path, "-loss")).unwrap();
        assert_eq!(concern(&path), None);
    }
}

/// The outbox is a store of its own, and says so in the health.
#[tokio::test]
async fn outbox_says_which_jobs_it_has_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox.db");
    drop(open(&path).unwrap());
    kill_after(churn(&path), 100);
    fs::remove_file(beside(&path, "-wal")).unwrap();
    let broker: Arc<Broker> = Arc::new(Sqlite::memory().unwrap().into());
    let outbox = Outbox::open(directory.path(), &broker, false).await.unwrap().expect("it has a file");
    let said = outbox.concern().expect("it is noticed");
    assert!(said.starts_with("the outbox ") && said.contains("outbox.db has lost"), "{said}");
}

const REFUSED: &str = "the broker has refused jobs of the outbox, which will not run";

/// It was acknowledged: nobody may forget it, not even after a month.
#[tokio::test]
async fn outbox_says_which_jobs_the_broker_has_refused_until_somebody_has_seen_to_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox.db");
    let store = open(&path).unwrap();
    store.put(vec![job("a")]).await.unwrap();
    store.cancel("a".into(), "the outbox".into()).await.unwrap();
    drop(store);
    let broker: Arc<Broker> = Arc::new(Sqlite::memory().unwrap().into());
    let outbox = Outbox::open(directory.path(), &broker, false).await.unwrap().expect("it has a file");
    let told = || broker.complaints().told(clock::now());
    assert_eq!((told()[0].what.as_str(), &told()[0].how[..2]), (REFUSED, "1;"), "{:?}", told());
    drop(outbox);
    let store = open(&path).unwrap();
    let options = store.tell(verb::ShowOptions {}, "").await.unwrap();
    let kept = options.iter().filter(|option| option.name.starts_with("keep_complete"));
    assert!(kept.clone().count() == 2 && kept.clone().all(|option| option.is_set), "{options:?}");
    store.tell(verb::Discard { job: "a".into() }, "uid 7").await.unwrap();
    drop(store);
    let outbox = Outbox::open(directory.path(), &broker, false).await.unwrap().expect("it has a file");
    assert_eq!((told(), outbox.concern()), (Vec::new(), None));
}

/// Puts and other changes, some of which move no job, are counted alike.
#[tokio::test]
async fn each_durable_change_that_is_gone_is_noticed() {
    type Change = fn(&Broker) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;
    let changes: [Change; 3] = [
        |store| Box::pin(async { drop(store.put(vec![job("b")]).await.unwrap()) }),
        |store| Box::pin(async { assert!(store.cancel("a".into(), "uid 7".into()).await.is_ok()) }),
        |store| Box::pin(async { store.pause("q".into(), "uid 7".into(), None).await.unwrap() }),
    ];
    for change in changes {
        let (_directory, path) = place();
        let store = open(&path).unwrap();
        store.put(vec![job("a")]).await.unwrap();
        drop(store);
        let before = fs::read(&path).unwrap();
        let store = open(&path).unwrap();
        change(&store).await;
        drop(store);
        assert_eq!(concern(&path), None);
        fs::write(&path, before).unwrap();
        assert!(concern(&path).is_some_and(|said| said.contains("has lost 1 ")), "{:?}", concern(&path));
    }
}

#[tokio::test]
async fn kill_of_several_processes_at_any_moment_is_no_loss() {
    let (_directory, path) = place();
    // A process may give up: three of them wait for each other's locks.
    let mut puts = 0;
    for round in 1..8 {
        let all: Vec<_> = (0..3).map(|_| churn(&path)).collect();
        let direct = helper("put", &path, &[]).env("STORE_JOB", format!("{round}")).output().unwrap();
        assert!(direct.status.success());
        puts += all.into_iter().map(|one| kill_after(one, 7 * round)).sum::<usize>();
        assert_eq!(concern(&path), None, "round {round}");
    }
    assert!(puts > 100, "{puts}");
    let store = open(&path).unwrap();
    let forgotten = store.put(vec![NewJob { queue: "gone".into(), ..job("one of it") }]).await.unwrap();
    store.cancel(forgotten[0].clone(), "uid 7".into()).await.unwrap();
    let forget = verb::Forget { queue: "gone".into(), discard: true, after: None };
    store.tell(forget, "uid 7").await.unwrap();
    drop(store);
    assert_eq!(concern(&path), None);
}

#[tokio::test]
async fn copies_and_backups_have_lost_nothing() {
    let (directory, path) = place();
    let store = open(&path).unwrap();
    store.put(vec![job("a")]).await.unwrap();
    let backup = directory.path().join("backup.db");
    Connection::open(&path).unwrap().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    store.put(vec![job("b")]).await.unwrap();
    // A copy of all files of a store that is written to, the count last.
    let there = directory.path().join("there.db");
    for suffix in ["", "-wal"] {
        fs::copy(beside(&path, suffix), beside(&there, suffix)).unwrap();
    }
    store.put(vec![job("c")]).await.unwrap();
    fs::copy(beside(&path, "-count"), beside(&there, "-count")).unwrap();
    drop(store);
    assert_eq!(concern(&there), None);
    fs::rename(&backup, &path).unwrap();
    assert_eq!(concern(&path), None);
    let store = open(&path).unwrap();
    assert_eq!(store.get("b".into()).await, Ok(None), "it is the backup");
}
