//! The verb `option` with options of qless and of other programs.

use serde_json::json;

use crate::supervisors::Scene;

fn option(scene: &Scene, line: &str) -> String {
    let words: Vec<&str> = ["option"].into_iter().chain(line.split(' ')).collect();
    scene.ok(&words).trim().to_owned()
}

#[test]
fn options_of_qless_are_set_and_shown_under_their_own_names() {
    let scene = Scene::new();
    let mut other = scene.other();
    assert_eq!(option(&scene, "get max-worker-age"), "86400");
    option(&scene, "set max-worker-age 3600");
    option(&scene, "set heartbeat 20 --queue night-mail");
    assert_eq!(other.line::<String>("config.get 1 max-worker-age"), "3600");
    assert_eq!(other.line::<String>("config.get 1 night-mail-heartbeat"), "20");
    assert_eq!(option(&scene, "get heartbeat --queue night-mail"), "20");
    assert_eq!(option(&scene, "get heartbeat"), "60");
    let refusal = |words: &[&str]| scene.sandbox.refused(&Scene::with(&scene.url, words));
    let (code, said) = refusal(&["option", "set", "grace-period", "5"]);
    assert!(code == 2 && said.contains("option grace-period is called grace here"), "{said}");
    let (code, said) = refusal(&["option", "set", "hartbeat", "5"]);
    assert!(
        code == 2 && said.contains("no option is called 'hartbeat'") && said.contains("heartbeat,"),
        "{said}"
    );
    option(&scene, "unset heartbeat --queue night-mail");
    assert_eq!(other.line::<Option<String>>("config.get 1 night-mail-heartbeat"), None);
}

#[test]
fn option_load_of_a_dump_restores_options_of_all_programs() {
    let scene = Scene::new();
    let mut other = scene.other();
    let pairs =
        "grace-period 5 jobs-history soon mail-max-concurrency 3 mail-heartbeat 7 colour red stats-history 9";
    let _: i64 = other.raw(&format!("HSET ql:config {pairs}"));
    let before = other.everything();
    let dump = option(&scene, "dump");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&dump).unwrap(),
        json!({
            "all": {"grace": "5s"}, "queues": {"mail": {"max_concurrency": "3"}},
            "others": {"colour": "red", "jobs-history": "soon", "mail-heartbeat": "7", "stats-history": "9"},
        })
    );
    let file = scene.sandbox.path("options.json");
    std::fs::write(&file, &dump).unwrap();
    let _: i64 = other.raw("DEL ql:config");
    let _: i64 = other.raw("HSET ql:config later 1 heartbeat 1");
    scene.ok(&["option", "load", "--clear", file.to_str().unwrap()]);
    assert_eq!(other.everything(), before);
    // The embedded store refuses options of qless.
    let (code, said) = scene.sandbox.refused(&["option", "load", file.to_str().unwrap()]);
    assert!(code == 2 && said.contains("option colour is of qless and its clients"), "{said}");
}
