//! What the processes of running jobs are, and what they do.

use crate::page::{Served, status};
use crate::sandbox::{Sandbox, Setting, kill, wait_until};

#[test]
fn pages_of_a_job_a_slot_and_a_pool_show_processes_and_what_they_do_if_asked() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2"]);
    let job = sandbox.put(&["sh", "-c", "sleep 1000 & wait"]);
    wait_until("it runs", || sandbox.state(&job) == "running");
    let worker = sandbox.job(&job)["worker"]["slot"].as_str().unwrap().to_owned();
    let page = Served::start(&sandbox, &[]);
    let cookie = page.enter();
    let ask = |path: &str| page.ask("GET", path, &[&cookie], "");
    for path in [format!("/job/{job}"), format!("/slot/{worker}")] {
        wait_until("the tree is shown", || ask(&path).contains("<bdi>sleep</bdi>"));
    }
    let shown = ask("/pool/default");
    let row = shown
        .split("<tr")
        .find(|row| row.contains(&format!("data-key=\"{worker}\"")))
        .unwrap_or_else(|| panic!("{shown}"));
    assert!(row.contains("M</td>"), "the memory of the tree: {row}");
    let leader = sandbox.status()["pools"][0]["slots"].as_array().unwrap().clone();
    let leader = leader.iter().find_map(|slot| slot["process"]["pid"].as_i64()).unwrap();
    kill(leader as i32, "STOP");
    wait_until("status's word for it is shown", || {
        ask("/workers").contains("<span class=\"why\">stopped</span>")
    });
    kill(leader as i32, "CONT");

    let picture = format!("/job/{job}/picture");
    assert!(ask(&format!("/job/{job}")).contains(&format!("href=\"{picture}\"")));
    let shown = ask(&picture);
    assert!(status(&shown) == 200 && shown.contains("<bdi>sleep</bdi>"), "{shown}");
    assert!(shown.contains("pipe:[") && shown.contains(&format!("taskvisor job picture {job}")), "{shown}");
    let hidden = Served::start(&sandbox, &["--hide-data"]);
    let shown = hidden.ask("GET", &picture, &[&hidden.enter()], "");
    assert!(
        status(&shown) == 200 && !shown.contains("<bdi>sleep</bdi>") && !shown.contains("pipe:["),
        "{shown}"
    );
    let viewed = Served::start(&sandbox, &["--read-only"]);
    let cookie = viewed.enter();
    assert_eq!(status(&viewed.ask("GET", &picture, &[&cookie], "")), 403);
    assert!(!viewed.ask("GET", &format!("/job/{job}"), &[&cookie], "").contains("/picture"));
}
