//! A fetch may arrive at the server long after it was given up, by an old connection: it gets nothing. The scripts of RQ and
//! of the reliable queue; qless is in `tests/redis/unheard.rs`.

use redis::Value;

use crate::redis_server::{RedisServer, Scripted};

/// The sources of a script, joined as the broker joins them.
macro_rules! script {
    ($broker:literal: $($name:literal)*) => {
        concat!($(include_str!(concat!("../../src/brokers/", $broker, "/script/", $name, ".lua")), "\n",)*)
    };
}

/// Gives the count of the jobs of a fetch with this name, which names the lost fetches before it.
type Fetch = fn(&mut Scripted, &str, &[&str]) -> usize;

fn count(answer: &[Value]) -> usize {
    let [Value::Array(jobs), ..] = answer else { panic!("{answer:?}") };
    jobs.len()
}

fn of_reliable(client: &mut Scripted, name: &str, unheard: &[&str]) -> usize {
    let lost = unheard.len().to_string();
    let args = [&["fetch", "0", "1", "60", "me", name, &lost], unheard, &["0", "0", "0"]].concat();
    count(&client.call::<Vec<Value>>(&args))
}

fn of_rq(client: &mut Scripted, name: &str, unheard: &[&str]) -> usize {
    let lost = unheard.len().to_string();
    let execution = format!("{name:0>32}");
    let before = [&["take", "1000", "rq", name, &lost], unheard].concat();
    let after = ["60", "me", "order", "1", "default", "all", "1", "w.1", "1", "{}", &execution];
    count(&client.call::<Vec<Value>>(&[&before[..], &after].concat()))
}

/// Puts a job by the keys of the broker.
fn put(client: &mut Scripted, broker: &str, id: &str) {
    let lines = match broker {
        "rq" => [
            format!("HSET rq:job:{id} status queued origin default data x"),
            format!("RPUSH rq:queue:default {id}"),
        ],
        _ => [format!("HSET values {id} 1"), format!("LPUSH pending {id}")],
    };
    lines.iter().for_each(|line| drop(client.raw::<Value>(line)));
}

#[test]
fn fetch_that_arrives_after_it_was_given_up_gets_nothing() {
    let reliable = script!("reliable": "base" "take" "ends" "tidy");
    let rq = script!("rq": "base" "history" "limits" "callbacks" "take" "ends" "chores" "look" "end");
    for (broker, script, fetch) in [("reliable", reliable, of_reliable as Fetch), ("rq", rq, of_rq)] {
        let server = RedisServer::start();
        let mut client = Scripted::new(&server, script);
        put(&mut client, broker, "j");
        assert_eq!(
            fetch(&mut client, "c", &["a", "b"]),
            1,
            "{broker}: two were given up before they arrived"
        );
        put(&mut client, broker, "late");
        assert_eq!([fetch(&mut client, "a", &[]), fetch(&mut client, "b", &[])], [0, 0], "{broker}");
        assert_eq!(fetch(&mut client, "d", &["b"]), 1, "{broker}: what was put later is there for the next");
        // The marks of fetches that were given up go by themselves.
        let key = if broker == "rq" { "rq:taskvisor:unheard" } else { "taskvisor:unheard" };
        assert!(client.raw::<i64>(&format!("TTL {key}")) > 60, "{broker}");
    }
}
