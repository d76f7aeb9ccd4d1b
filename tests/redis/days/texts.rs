//! Jobs of other clients with extreme ids, tags and data.

use crate::sandbox::wait_until;
use crate::supervisors::Scene;

#[test]
fn strange_ids_long_tags_and_invalid_data_stop_no_job() {
    let scene = Scene::new();
    let mut other = scene.other();
    // Together the tags are a megabyte long.
    let tags: Vec<String> = (0..25_000).map(|number| format!("{number:0>48}")).collect();
    let tags = serde_json::to_string(&tags).unwrap();
    assert!(tags.len() > 1 << 20);
    let jids = ["with spaces \u{e4}nd more", "-- --help", "a/b\\c\"d'e", "line\nbreak"];
    for jid in &jids[..3] {
        scene.ok(&["put", &format!("--jid={jid}"), "--", "true"]);
    }
    // An id that our `put` refuses.
    let klass: String = other.raw_call(&["HGET", &format!("ql:j:{}", jids[0]), "klass"]);
    let program: String = other.raw_call(&["HGET", &format!("ql:j:{}", jids[0]), "data"]);
    let _: String = other.call(&["put", &Scene::now(), "me", "default", jids[3], &klass, &program, "0"]);
    let _: redis::Value = other.raw_call(&["HSET", &format!("ql:j:{}", jids[3]), "exec", "1"]);
    let _: String =
        other.call(&["put", &Scene::now(), "me", "default", "tagged", &klass, &program, "0", "tags", &tags]);
    let _: String = other.call(&["put", &Scene::now(), "me", "default", "no json", &klass, &program, "0"]);
    let _: redis::Value = other.raw_call(&["HSET", "ql:j:no json", "data", "{no \u{7}json", "exec", "1"]);
    let _running = scene.start(&["-w", "1"]);
    for jid in jids {
        wait_until(jid, || {
            scene.sandbox.json(&["-b", &scene.url, "job", "show", "--json", "--", jid])["state"] == "complete"
        });
    }
    // A job that is no program is released unspent for a worker that knows its class.
    for jid in ["tagged", "no json"] {
        wait_until(jid, || scene.job(jid)["unknown_class"].as_u64().unwrap_or(0) > 0);
        assert_eq!(scene.job(jid)["attempt"], 0, "{jid}");
    }
    assert_eq!(scene.job("tagged")["tags"].as_array().unwrap().len(), 25_000);
    scene.ok(&["job", "list", "--limit", "0"]);
    scene.assert_goes_on();
}
