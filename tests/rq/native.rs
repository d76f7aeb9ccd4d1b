//! The mode native: RQ's own code runs and ends the job; the supervisor ends jobs that it cannot.

use std::process::Command;

use serde_json::json;

use crate::sandbox::{alive, wait_until};
use crate::scene::{Scene, begun, stop};

/// Runs the jobs that every version of RQ supports.
fn runs(scene: &Scene, flags: &[&str]) {
    let mut running = scene.start_workers(&scene.sandbox, &scene.url(), &["-w", "2"], flags);
    let first = scene.put("q().enqueue(tasks.add, 1, 2, on_success=Callback(tasks.succeeded))");
    let second = scene.put(&format!("q().enqueue(tasks.name, depends_on={first:?})"));
    let failing =
        scene.put("q().enqueue(tasks.fails, retry=Retry(max=1), on_failure=Callback(tasks.failed))");
    let killed = scene.put("q().enqueue(tasks.dies, retry=Retry(max=1))");
    let later = scene.put("q().enqueue_in(in_seconds(1), tasks.add, 3, 4)");
    scene.wait(&second, "finished");
    assert_eq!(scene.result(&first), 3);
    assert_eq!(scene.text("c.get('succeeded').decode()"), format!("{first} 3"));
    assert_eq!(scene.result(&second), json!(scene.text(&format!("job({second:?}).worker_name"))));
    scene.wait(&failing, "failed");
    assert!(scene.exception(&failing).contains("ValueError: no luck"));
    assert!(scene.text("c.get('callback').decode()").starts_with(&failing));
    scene.wait(&killed, "failed");
    assert!(
        scene.exception(&killed).contains("waitpid returned 9 (signal 9)"),
        "{}",
        scene.exception(&killed)
    );
    scene.wait(&later, "finished");
    let left = [&failing, &killed].map(|job| scene.rq(&format!("job({job:?}).retries_left")));
    assert_eq!(left, [json!(0), json!(0)]);

    // What RQ's own code ended is counted as it ended.
    let settled = || {
        let settled = scene.sandbox.status()["settled"].clone();
        ["failed", "retry"].map(|word| settled[word].as_u64().unwrap_or(0))
    };
    wait_until("each end is counted", || settled() == [2, 2]);

    let (job, file) = scene.put_waiting("native", "");
    let horse = begun(&file).unwrap();
    assert_eq!(scene.rq("c.zcard('rq:wip:default')"), 1, "it is one running job");
    scene.rq(&format!("send_stop_job_command(c, {job:?})"));
    wait_until("the job is dead", || !alive(horse));
    scene.wait(&job, "stopped");
    let counts = "[len(FinishedJobRegistry('default', c)), len(FailedJobRegistry('default', c)), \
                  len(StartedJobRegistry('default', c)), len(q())]";
    wait_until("the registries are right", || scene.rq(counts) == json!([3, 3, 0, 0]));
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn native_mode_runs_jobs_of_the_newest_rq() {
    runs(&Scene::new(), &["--native"]);
}

#[test]
fn native_mode_runs_jobs_of_rq_1() {
    runs(&Scene::with("1.16.2"), &[]);
}

#[test]
fn rq_info_of_rq_1_shows_queues_and_workers() {
    let scene = Scene::with("1.16.2");
    let _running = scene.start(&["-w", "2"]);
    let (job, file) = scene.put_waiting("shown", "");
    scene.put("q('other').enqueue(tasks.add, 1, 2)");
    let info = || {
        let mut info = Command::new("python3");
        info.args(["-c", "from rq.cli import main; main()", "info", "-u", &scene.server.url()]);
        let output = info.env("PYTHONPATH", scene.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = info();
    assert!(shown.contains("2 workers, 2 queues") && shown.contains("busy"), "{shown}");
    assert!(shown.contains("other") && shown.contains("1 jobs total"), "{shown}");
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    assert!(!info().contains("busy"));
}
