//! Pools: which pool takes which jobs in which order, and the number of workers.

use super::*;

#[test]
fn pools_take_jobs_of_their_own_queue_and_a_broken_pool_affects_no_other() {
    let sandbox = python::new();
    let text = "pools:
  - {name: broken, workers: 2, queues: [never], PYTHON broken}
  - {name: one, mode: prefork, queues: [q.one], PYTHON app}
  - {name: two, mode: fork, workers: 2, queues: [q.two], PYTHON app}
  - {name: three, mode: coroutine, queues: [q.three], PYTHON app}
  - {name: four, queues: [default]}";
    let path = python::file(&sandbox, text);
    let _running = sandbox.start_raw(&["-c", &path]);
    wait_until("it listens", || sandbox.status().is_object());
    let never = put_into(&sandbox, "never", "where");
    let own = [("one", "prefork"), ("two", "fork"), ("three", "coroutine")];
    let jids: Vec<String> =
        own.iter().map(|(name, _)| put_into(&sandbox, &format!("q.{name}"), "where")).collect();
    for (jid, (name, mode)) in jids.iter().zip(own) {
        assert_eq!(result(&ended(&sandbox, jid)), json!([name, mode]));
    }
    let program = sandbox.put(&["true"]);
    assert_eq!(ended(&sandbox, &program)["state"], "complete");
    wait_until("the broken one is probing", || pool(&sandbox, "broken")["probing"].is_string());
    for (name, _) in own {
        let again = put_into(&sandbox, &format!("q.{name}"), "where");
        assert_eq!(result(&ended(&sandbox, &again))[0], name);
        assert!(pool(&sandbox, name)["probing"].is_null());
    }
    assert_eq!(sandbox.state(&never), "waiting");
}

/// The order in which jobs of the queues C, B and A (3, 2 and 5 jobs) begin. A worker of 8 jobs at a time takes 8 in its
/// first fetch and begins them in the order of the fetch.
fn taken(order: &str, mode: &str, concurrency: u32) -> String {
    let sandbox = python::new();
    let class = if mode == "coroutine" { "queue.async" } else { "queue" };
    for (queue, count) in [("A", 5), ("B", 2), ("C", 3)] {
        put_lines(&sandbox, queue, class, &[], &vec!["null".into(); count]);
    }
    let text = format!(
        "pools: [{{mode: {mode}, concurrency: {concurrency}, order: {order}, queues: [C, B, A], PYTHON app}}]"
    );
    let _running = start_file(&sandbox, &text);
    let order = || fs::read_to_string(sandbox.work("order")).unwrap_or_default();
    wait_until("all have run", || order().len() == 10);
    order()
}

#[test]
fn jobs_are_taken_from_the_first_queue_that_has_one() {
    assert_eq!(taken("ordered", "prefork", 1), "CCCBBAAAAA");
    assert_eq!(taken("ordered", "coroutine", 8), "CCCBBAAAAA");
}

#[test]
fn jobs_are_taken_from_each_queue_in_turn() {
    assert_eq!(taken("round_robin", "prefork", 1), "CBACBACAAA");
    assert_eq!(taken("round_robin", "coroutine", 8), "CBACBACAAA");
}

/// Eight slots fetch at once: the jobs come to all three queues in one put, and the first job goes to the first slot.
fn taken_at_once(order: &str) -> String {
    let sandbox = python::new();
    let text = format!("pools: [{{workers: 8, order: {order}, queues: [C, B, A], PYTHON app}}]");
    let _running = start_file(&sandbox, &text);
    let put = "from taskvisor import NewJob, put_many
put_many([NewJob(queue, 'hold', f'{queue}{n}') for n in range(5) for queue in 'ABC' if n < {'A': 5, 'B': 2, 'C': 3}[queue]])";
    let mut python = Command::new("python3");
    python.args(["-c", put]).env("PYTHONPATH", python::path()).env("TASKVISOR_RUN_DIR", sandbox.path("run"));
    assert!(python.status().unwrap().success());
    wait_until("all are at work", || words(&sandbox, "begun-") == 8);
    let slots = python::slots(&sandbox);
    let jids = slots.iter().map(|slot| slot["jobs"][0]["id"].as_str().unwrap());
    let order = jids.map(|jid| sandbox.job(jid)["queue"].as_str().unwrap().to_owned()).collect();
    touch(&sandbox, "go");
    wait_until("all have run", || python::all(&sandbox, "complete").len() == 10);
    order
}

#[test]
fn eight_slots_that_fetch_at_once_keep_the_order_of_the_queues() {
    assert_eq!(taken_at_once("ordered"), "CCCBBAAA");
    assert_eq!(taken_at_once("round_robin"), "CBACBACA");
}

#[test]
fn shuffled_queues_are_all_served() {
    for (mode, concurrency) in [("prefork", 1), ("coroutine", 8)] {
        let mut taken: Vec<char> = taken("shuffled", mode, concurrency).chars().collect();
        taken.sort();
        assert_eq!(taken.into_iter().collect::<String>(), "AAAAABBCCC");
    }
}

#[test]
fn two_pools_on_one_queue_take_their_own_classes() {
    let sandbox = python::new();
    let text = "pools:
  - {name: many, classes: [many.*], except_classes: [many.Two], PYTHON app}
  - {name: others, except_classes: [many.One], PYTHON app}";
    let _running = start_file(&sandbox, text);
    for _ in 0..5 {
        assert_eq!(result(&run(&sandbox, "many.One", "null")), "many");
        assert_eq!(result(&run(&sandbox, "many.Two", "null")), "others");
        assert_eq!(result(&run(&sandbox, "where", "null"))[0], "others");
    }
}

#[test]
fn job_of_an_unknown_class_is_delayed_longer_each_time_until_a_worker_knows_it() {
    let sandbox = python::new();
    let running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    let jid = put(&sandbox, "later.Class", "null");
    let due = |times: u64| {
        let mut job = Value::Null;
        wait_until("no worker knew its class", || {
            job = sandbox.job(&jid);
            job["state"] == "delayed" && job["unknown_class"] == times
        });
        assert_eq!(counts(&job), [0, 0, 0], "{job}");
        job["due_at_ms"].as_i64().unwrap()
    };
    let first = due(1);
    assert_eq!(pool(&sandbox, "default")["unknown_classes"], json!({"later.Class": 1}));
    let list = sandbox.ok(&["job", "list"]);
    let row = list.lines().find(|line| line.contains(&jid[..8])).expect("a row");
    assert!(row.ends_with(" no worker knows class later.Class"), "WHY in {list}");
    assert!(sandbox.ok(&["status"]).contains("known to no worker: later.Class (1)"));
    let recur = |class: &str| {
        let output = sandbox.run(&["recur", "put", "n", "--cron", "0 0 29 feb *", "default", class]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = recur("later.Class");
    assert!(
        said.contains("no worker here knows the class 'later.Class': its jobs come back later"),
        "{said}"
    );
    assert_eq!(recur("look"), "");
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
    let second = due(2);
    assert!(second - first >= 2000, "1 s at first, then 2 s: {}", second - first);
    sandbox.ok(&["stop"]);
    drop(running);
    let _running =
        start_file(&sandbox, "pools: [{name: old, queues: [other], PYTHON app}, {name: new, PYTHON later}]");
    let job = ended(&sandbox, &jid);
    assert_eq!((result(&job), counts(&job)), (json!("known"), [1, 0, 0]), "{job}");
}

#[test]
fn job_of_a_class_unknown_ten_times_is_held() {
    let sandbox = python::new();
    let jid = put(&sandbox, "later.Class", "null");
    let store = rusqlite::Connection::open(sandbox.path("state").join("store.db")).unwrap();
    assert_eq!(store.execute("UPDATE job SET unknown = 10", []).unwrap(), 1);
    drop(store);
    let _running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("held"), &json!("unknown class")), "{job}");
}

/// Shrinking takes a minute, so the simulation tests it.
#[test]
fn pool_grows_by_one_worker_a_second_while_jobs_wait_up_to_its_maximum() {
    let sandbox = python::new();
    let _running = start_file(&sandbox, "pools: [{workers: {min: 1, max: 3}, PYTHON app}]");
    let slots = || python::slots(&sandbox).len();
    assert_eq!(slots(), 1);
    let names: Vec<String> = (0..6).map(|number| format!("\"{number}\"")).collect();
    let begin = Instant::now();
    let jids = put_lines(&sandbox, "default", "hold", &[], &names);
    wait_until("there are two", || slots() == 2);
    let second = begin.elapsed();
    wait_until("there are three", || slots() == 3);
    let third = begin.elapsed();
    assert!(
        second > Duration::from_millis(900) && third > Duration::from_millis(1900),
        "{second:?} {third:?}"
    );
    wait_until("all are at work", || words(&sandbox, "begun-") == 3);
    let is_full = || (slots(), words(&sandbox, "begun-")) == (3, 3);
    stays(Duration::from_millis(1500), "there is time for one more, and no room", is_full);
    touch(&sandbox, "go");
    for jid in jids {
        assert_eq!(ended(&sandbox, &jid)["state"], "complete");
    }
}
