//! The fleet: supervisors that share a Redis, their presence, and `status --fleet`.

use qless::script::SCRIPT;
use serde_json::Value;

use crate::Scene;
use crate::sandbox::{Sandbox, Setting, wait_until};
use crate::support::{RedisServer, Scripted};

/// A row of the fleet: instance, time of the last presence, its text, number of held jobs, their ids.
type Told = (String, String, String, u64, Vec<redis::Value>);

fn told(script: &mut Scripted, line: &str) -> Vec<Told> {
    let (_, members): (String, Vec<Told>) = script.line(line);
    members
}

#[test]
fn presence_is_echoed_to_its_sender_and_kept_until_it_leaves_or_a_silent_day() {
    let mut scene = Scene::new();
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 5 0"), []);
    scene.script.line::<redis::Value>("taskvisor.sign 10 ql:w:a-alive a {1}");
    assert_eq!(scene.ears.heard(), ["ql:w:a-alive "]);
    scene.script.line::<redis::Value>("taskvisor.sign 25 ql:w:a-alive a {2}");
    scene.script.line::<redis::Value>("taskvisor.sign 30 ql:w:b-alive b {}");
    let seen = |name: &str, at: &str, text: &str| (name.into(), at.into(), text.into(), 0, Vec::new());
    let both = [seen("a", "25", "{2}"), seen("b", "30", "{}")];
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 31 0"), both);
    scene.script.line::<i64>("taskvisor.leave 32 b");
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 33 0"), both[..1]);
    // A reader sees no expired row, even before the cleanup.
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 86425 0"), []);
    scene.script.line::<redis::Value>("taskvisor.sign 86425 ql:w:b-alive b {}");
    let everything = scene.script.everything();
    let keys: Vec<_> = everything.keys().collect();
    assert_eq!(keys, ["ql:taskvisor:fleet", "ql:taskvisor:mark", "ql:taskvisor:seen"]);
    assert!(!everything["ql:taskvisor:fleet"].contains("{2}"), "{everything:?}");
}

/// A supervisor that has no presence yet only tests its subscription.
#[test]
fn presence_without_an_instance_name_is_not_kept() {
    let mut scene = Scene::new();
    scene.script.call::<redis::Value>(&["taskvisor.sign", "10", "ql:w:a-alive", "", ""]);
    assert_eq!(scene.ears.heard(), ["ql:w:a-alive "]);
    assert!(scene.script.everything().is_empty());
}

#[test]
fn workers_idle_for_a_day_are_forgotten_a_hundred_at_a_time() {
    let mut scene = Scene::new();
    for number in 0..150 {
        let _: i64 = scene.script.raw(&format!("ZADD ql:workers {number} w{number}"));
    }
    let _: i64 = scene.script.raw("ZADD ql:w:w0:jobs 1 j");
    let _: i64 = scene.script.raw("ZADD ql:workers 86400 young");
    scene.script.line::<redis::Value>("taskvisor.sign 90000 ql:w:a-alive a {}");
    assert_eq!(scene.script.raw::<u64>("ZCARD ql:workers"), 51);
    assert_eq!(scene.script.raw::<u64>("EXISTS ql:w:w0:jobs"), 0);
    scene.script.line::<redis::Value>("taskvisor.sign 90001 ql:w:a-alive a {}");
    assert_eq!(scene.script.raw::<Vec<String>>("ZRANGE ql:workers 0 -1"), ["young"]);
}

/// A full Redis must not make working supervisors look dead.
#[test]
fn full_redis_accepts_presence() {
    let mut scene = Scene::new();
    let _: String = scene.script.raw("CONFIG SET maxmemory 1");
    scene.script.line::<redis::Value>("taskvisor.sign 10 ql:w:a-alive a {}");
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 11 0").len(), 1);
}

fn fleet(sandbox: &Sandbox, url: &str) -> Vec<Value> {
    let shown = sandbox.json(&["--broker", url, "status", "--fleet", "--json"]);
    assert_eq!(shown["schema"], "taskvisor.fleet/1");
    shown["supervisors"].as_array().unwrap().clone()
}

#[test]
fn status_fleet_shows_every_supervisor_from_any_host() {
    let server = RedisServer::start();
    let (one, two, elsewhere) =
        (Sandbox::new(Setting::Root), Sandbox::new(Setting::Root), Sandbox::new(Setting::Root));
    let url = server.url();
    let nobody = elsewhere.ok(&["--broker", &url, "status", "--fleet"]);
    assert_eq!(nobody, "no supervisor shares this Redis\n");
    let first = one.start(&["-w", "2", "-q", "mail", "--broker", &url]);
    let mut second = two.start(&["-w", "3", "--broker", &url]);
    // The first presence is published before a slot is up; the next one follows at once when a slot is.
    let began = std::time::Instant::now();
    wait_until("both are shown with their slots, which are ready", || {
        let shown = fleet(&elsewhere, &url);
        let mut ready: Vec<_> = shown.iter().filter_map(|it| it["pools"][0]["ready"].as_u64()).collect();
        ready.sort();
        ready == [2, 3]
    });
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    // A supervisor gives the same answer.
    let names = |shown: &[Value]| shown.iter().map(|it| it["instance"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(&fleet(&one, &url)), names(&fleet(&elsewhere, &url)));
    let jid = elsewhere.ok(&["--broker", &url, "put", "--", "sleep", "1000"]).trim().to_owned();
    wait_until("its job is shown", || {
        let shown = elsewhere.ok(&["--broker", &url, "status", "--fleet", "-v"]);
        shown.contains("1 job running") && shown.contains(&format!("    {jid} exec "))
    });
    let began = std::time::Instant::now();
    wait_until("a slot is shown as busy", || {
        fleet(&elsewhere, &url).iter().any(|it| it["pools"][0]["busy"] == 1 && it["running"] == 1)
    });
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    let shown = fleet(&elsewhere, &url);
    let busy = shown.iter().find(|it| it["running"] == 1).unwrap();
    assert_eq!(busy["jobs"][0]["id"], jid.as_str());
    assert_eq!(busy["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(busy["pools"][0]["queues"], serde_json::json!(["default"]));
    // A changed pool is published at once, not with the next periodic presence.
    one.ok(&["scale", "default", "4"]);
    let began = std::time::Instant::now();
    wait_until("four slots are shown", || {
        fleet(&elsewhere, &url).iter().any(|it| it["pools"][0]["slots"] == 4)
    });
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    // A killed supervisor is shown as silent, a stopped one disappears.
    second.signal("KILL");
    second.wait();
    let dead = busy["instance"].as_str().unwrap();
    let _: f64 = Scripted::new(&server, SCRIPT).raw(&format!("ZINCRBY ql:taskvisor:seen -60 {dead}"));
    let page = elsewhere.ok(&["--broker", &url, "status", "--fleet"]);
    assert!(page.contains(": SILENT for 1m"), "{page}");
    one.ok(&["stop"]);
    drop(first);
    assert_eq!(names(&fleet(&elsewhere, &url)), [format!("\"{dead}\"")]);
}

#[test]
fn embedded_store_refuses_status_fleet_with_the_reason() {
    let sandbox = Sandbox::new(Setting::Root);
    let (code, said) = sandbox.refused(&["status", "--fleet"]);
    assert_eq!(code, 8);
    assert!(said.contains("cannot show the supervisors that share it"), "{said}");
}

/// A state directory, with its instance name, can be copied with a machine image or by hand.
#[test]
fn start_on_a_copied_state_directory_is_refused_while_the_original_runs() {
    let server = RedisServer::start();
    let (one, copy) = (Sandbox::new(Setting::Root), Sandbox::new(Setting::Root));
    let url = server.url();
    let mut first = one.start(&["-w", "1", "--broker", &url]);
    let jid = one.ok(&["--broker", &url, "put", "--", "sleep", "1000"]).trim().to_owned();
    let state = |jid: &str| one.json(&["job", "show", jid, "--json"])["state"].clone();
    wait_until("it runs and its supervisor is known", || {
        fleet(&copy, &url).iter().any(|it| it["running"] == 1)
    });
    std::fs::create_dir_all(copy.path("state")).unwrap();
    std::fs::copy(one.path("state").join("instance"), copy.path("state").join("instance")).unwrap();
    let (code, said) = copy.refused(&["start", "-w", "1", "--broker", &url]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("goes by the same name") && said.contains("state/instance, so that"), "{said}");
    assert_eq!(state(&jid), "running");
    // The original may start again at once, however it ended.
    first.signal("KILL");
    first.wait();
    let again = one.start(&["-w", "1", "--broker", &url]);
    wait_until("the job runs again", || one.job(&jid)["interruptions"] == 1 && state(&jid) == "running");
    drop(again);
    // An original that has been silent for longer counts as dead.
    let name = std::fs::read_to_string(one.path("state").join("instance")).unwrap();
    let _: f64 =
        Scripted::new(&server, SCRIPT).raw(&format!("ZINCRBY ql:taskvisor:seen -20 {}", name.trim()));
    let _heir = copy.start(&["-w", "1", "--broker", &url]);
}

/// Other clients do not update the list of jobs that a supervisor holds.
#[test]
fn jobs_taken_away_by_other_clients_are_not_counted() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &[]);
    }
    let _: redis::Value = scene.script.line("taskvisor.fetch 5 me f 0 60 order 0 0 1 q 3 w1 {} w2 {} w3 {}");
    scene.script.line::<redis::Value>("taskvisor.sign 10 ql:w:a-alive me {}");
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 11 0")[0].3, 3);
    let _: redis::Value = scene.script.line("cancel 12 a");
    scene.script.line::<String>("put 12 somebody q b klass {} 0");
    assert_eq!(told(&mut scene.script, "taskvisor.fleet 13 0")[0].3, 1);
    let _: redis::Value = scene.script.line("cancel 14 c");
    scene.script.line::<redis::Value>("taskvisor.sign 15 ql:w:a-alive me {}");
    assert_eq!(scene.script.raw::<u64>("EXISTS ql:taskvisor:held:me"), 0);
}
