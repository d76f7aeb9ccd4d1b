//! How jobs end, as RQ's own client sees it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::redis_server::Monitor;
use crate::sandbox::{Sandbox, Setting, alive, stays, wait_until};
use crate::scene::{Scene, stop};

#[test]
fn jobs_of_rq_2_and_rq_3_run_and_rq_reads_their_results() {
    for version in ["2.12.0", "3.0.0"] {
        let scene = Scene::with(version);
        let first = scene.put("q().enqueue(tasks.add, 1, 2)");
        let second = scene.put(&format!("q('high').enqueue(tasks.add, 3, 4, depends_on={first:?})"));
        let failed = scene.put("q().enqueue(tasks.fails)");
        let last = scene.put(&format!("q().enqueue(tasks.add, 5, 6, depends_on={failed:?})"));
        let anyway =
            format!("q().enqueue(tasks.add, 7, 8, depends_on=Dependency({failed:?}, allow_failure=True))");
        let anyway = scene.put(&anyway);
        let mut running = scene.start(&["-w", "2", "-q", "high", "-q", "default"]);
        scene.wait(&second, "finished");
        scene.wait(&failed, "failed");
        scene.wait(&anyway, "finished");
        assert_eq!(
            [scene.result(&first), scene.result(&second), scene.result(&anyway)],
            [3, 7, 15],
            "{version}"
        );
        assert_eq!(scene.status(&last), "deferred");
        assert!(scene.exception(&failed).contains("ValueError: no luck"));
        let registries = "[len(FinishedJobRegistry('default', c)), len(FailedJobRegistry('default', c)), \
                          len(StartedJobRegistry('default', c)), len(DeferredJobRegistry('default', c))]";
        assert_eq!(scene.rq(registries), json!([2, 1, 0, 1]), "{version}");
        let ttls = format!("[c.ttl('rq:job:{first}') > 400, c.ttl('rq:results:{failed}') > 1000]");
        assert_eq!(scene.rq(&ttls), json!([true, true]));
        let counts = "[sum(w.successful_job_count for w in Worker.all(c)), sum(w.failed_job_count for w in Worker.all(c))]";
        assert_eq!(scene.rq(counts), json!([3, 1]));
        assert!(stop(&mut running).success());
        assert_eq!(scene.rq("left()"), json!([]), "nothing is left of workers and executions");
    }
}

#[test]
fn retry_and_repeat_of_rq_work() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let failed = scene.put("q().enqueue(tasks.fails, retry=Retry(max=2, interval=[0, 1]))");
    let repeats = scene.put("q().enqueue(tasks.add, 1, 1, repeat=Repeat(times=2, interval=[0, 1]))");
    let returned = scene.file("returned");
    let returned = scene.put(&format!("q().enqueue(tasks.tries_again, {returned:?})"));
    scene.wait(&failed, "failed");
    assert_eq!(scene.rq(&format!("job({failed:?}).retries_left")), 0);
    scene.wait(&returned, "failed");
    assert_eq!(scene.lines("returned"), 3);
    assert_eq!(scene.rq(&format!("[r.type.value for r in job({returned:?}).results()]")), json!([5, 4, 4]));
    wait_until("it was repeated", || scene.rq(&format!("len(job({repeats:?}).results())")) == 3);
    assert_eq!(scene.status(&repeats), "finished");
}

#[test]
fn retries_left_of_twenty_digits_stay_a_number_that_rq_reads() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue(tasks.fails, retry=Retry(max=2, interval=60))");
    scene.rq(&format!("c.hset('rq:job:{job}', 'retries_left', '9' * 20)"));
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "scheduled");
    assert_eq!(scene.rq(&format!("job({job:?}).retries_left")), (1_u64 << 53) - 1);
}

#[test]
fn fail_of_taskvisor_ends_an_rq_job_whatever_retries_are_left() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let file = scene.file("tried");
    let job = scene.put(&format!("q().enqueue(tasks.fails_for_good, {file:?}, retry=Retry(max=3))"));
    scene.wait(&job, "failed");
    assert_eq!((scene.lines("tried"), scene.rq(&format!("job({job:?}).retries_left"))), (1, json!(0)));
}

#[test]
fn failure_has_the_message_of_rq_and_the_real_cause() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let killed = scene.put("q().enqueue(tasks.dies)");
    let left = scene.put("q().enqueue(tasks.exits, 0)");
    let late = scene.put("q().enqueue(tasks.sleeps, 60, job_timeout=1)");
    for (job, words) in [
        (&killed, ["Work-horse terminated unexpectedly; waitpid returned 9 (signal 9);", "signal 9"]),
        (&left, ["Work-horse terminated unexpectedly; waitpid returned 0;", "exit 0"]),
        (&late, ["Task exceeded maximum timeout value (1 seconds)", "JobTimeoutException"]),
    ] {
        scene.wait(job, "failed");
        let said = scene.exception(job);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn job_with_result_ttl_0_leaves_no_keys() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let job = scene.put("q().enqueue(tasks.add, 1, 2, result_ttl=0)");
    scene.wait(&job, "gone");
    wait_until("no key is left of it", || scene.rq(&format!("c.keys('*{job}*')")) == json!([]));
}

#[test]
fn stop_command_kills_the_process_tree_of_a_job_and_a_kill_retries_it() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let tree = scene.file("tree");
    let job = scene.put(&format!("q().enqueue(tasks.leaves_a_child, {tree:?}, retry=Retry(max=5))"));
    let pid = || std::fs::read_to_string(&tree).ok()?.trim().parse::<i32>().ok();
    wait_until("it has a child", || pid().is_some());
    let child = pid().unwrap();
    let began = Instant::now();
    scene.rq(&format!("send_stop_job_command(c, {job:?})"));
    wait_until("the child of the job is dead", || !alive(child));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    scene.wait(&job, "stopped");
    assert_eq!(scene.exception(&job), "Job stopped by user, work-horse terminated.");

    let (job, file) = scene.put_waiting("again", ", retry=Retry(max=1)");
    let worker = scene.text(&format!("job({job:?}).worker_name"));
    scene.rq(&format!("send_kill_horse_command(c, {worker:?})"));
    wait_until("it runs a second time", || scene.lines("again.begun") == 2);
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
}

#[test]
fn suspended_queues_give_no_jobs_and_shutdown_of_all_workers_ends_the_supervisor() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "2"]);
    wait_until("RQ sees both workers", || scene.rq("len(Worker.all(c))") == 2);
    let at = "sum(w.ip_address in [o['addr'] for o in c.client_list()] for w in Worker.all(c))";
    assert_eq!(scene.rq(at), 2, "{}", scene.rq("[w.ip_address for w in Worker.all(c)]"));
    scene.rq("suspend(c)");
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    let other = scene.put("q('other').enqueue(tasks.add, 1, 2)");
    wait_until("the chores were done twice", || scene.rq("c.exists('rq:scheduler-lock:default')") == 1);
    assert_eq!((scene.status(&job), scene.status(&other)), ("queued".into(), "queued".into()));
    let told = "RQ is suspended, so no job is taken from any queue";
    wait_until("status says so", || scene.sandbox.reasons().contains(told));
    assert!(scene.sandbox.ok(&["-b", &scene.url(), "why", "job", &job]).contains(told));
    scene.rq("resume(c)");
    scene.wait(&job, "finished");
    wait_until("status says no more of it", || !scene.sandbox.reasons().contains(told));
    scene.rq("[send_shutdown_command(c, w.name) for w in Worker.all(c)]");
    assert!(running.wait().success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn burst_of_suspended_queues_ends_at_once_and_says_that_jobs_may_be_left() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq("suspend(c)");
    let burst = || {
        let mut command =
            scene.sandbox.command(&["rq", "worker", "-b", "-u", &scene.server.url(), "default"]);
        command.env("PYTHONPATH", scene.path()).output().unwrap()
    };
    let (ended, said) =
        (burst(), "RQ is suspended, so no job is taken from any queue: `rq resume` ends that");
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("the burst ends, and jobs may be left") && log.contains(said), "{log}");
    assert_eq!(scene.status(&job), "queued");
    scene.rq("resume(c)");
    assert!(burst().status.success());
    assert_eq!(scene.status(&job), "finished");
}

#[test]
fn scheduled_job_of_rq_runs_once_when_due() {
    let scene = Scene::new();
    let other = crate::sandbox::Sandbox::new(crate::sandbox::Setting::Root);
    let _one = scene.start(&["-w", "1"]);
    let _two = scene.start_in(&other, &scene.url(), &["-w", "1"]);
    let file = scene.file("due");
    let jobs: Vec<String> =
        (0..10).map(|_| scene.put(&format!("q().enqueue_in(in_seconds(1), tasks.note, {file:?})"))).collect();
    for job in &jobs {
        scene.wait(job, "finished");
    }
    assert_eq!(scene.lines("due"), 10);
    assert_eq!(scene.rq("len(ScheduledJobRegistry('default', c))"), 0);
}

#[test]
fn job_may_clean_up_for_long_after_its_timeout() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let file = scene.file("cleaned");
    let job = scene.put(&format!("q().enqueue(tasks.cleans_up, {file:?}, 2, job_timeout=1)"));
    scene.wait(&job, "failed");
    assert_eq!(scene.lines("cleaned"), 1, "its finally block has run to its end");
    assert!(scene.exception(&job).contains("JobTimeoutException"));
}

#[test]
fn job_canceled_by_rq_while_it_runs_is_finished_when_it_returns() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("canceled", "");
    let next = scene.put(&format!("q().enqueue(tasks.add, 1, 2, depends_on={job:?})"));
    scene.rq(&format!("job({job:?}).cancel()"));
    assert_eq!(scene.status(&job), "canceled");
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    assert_eq!(scene.status(&next), "deferred", "as in RQ");
    let registries = format!(
        "[{job:?} in r('default', c).get_job_ids() for r in (CanceledJobRegistry, FinishedJobRegistry)]"
    );
    assert_eq!(scene.rq(&registries), json!([false, true]));
    assert!(stop(&mut running).success());
}

#[test]
fn long_result_is_kept_and_a_used_up_retry_is_a_reason() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let long = scene.put("q().enqueue('rq_tasks.long_result', 20 << 20)");
    scene.wait(&long, "finished");
    let kept = format!("(lambda kept: [len(kept), kept[-1:] == b'x'])(job({long:?}).return_value())");
    assert_eq!(scene.rq(&kept), json!([20 << 20, true]));
    let job = scene.put(&format!("q().enqueue(tasks.tries_again, {:?})", scene.file("tried")));
    scene.wait(&job, "failed");
    assert_eq!(scene.lines("tried"), 3);
    assert_eq!(scene.sandbox.job(&job)["failure"]["group"], "Retry");
    let why = scene.sandbox.ok(&["why", "job", &job]);
    assert!(why.contains("once more than it allows"), "{why}");
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn end_of_a_job_is_heard_at_another_host_and_not_looked_for_again_and_again() {
    let (scene, there) = (Scene::new(), Sandbox::new(Setting::Root));
    let _running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("until", "");
    let mut monitor = Monitor::new(&scene.server);
    let mut waiting = there.command(&["-b", &scene.url(), "job", "wait", &job]).spawn().unwrap();
    wait_until("it listens", || monitor.calls("XREAD") > 0);
    monitor.calls("get");
    stays(Duration::from_millis(2500), "it waits", || waiting.try_wait().unwrap().is_none());
    let looks = monitor.calls("get");
    assert!(looks <= 4, "{looks} looks");
    std::fs::remove_file(&file).unwrap();
    wait_until("it hears of the end", || waiting.try_wait().unwrap().is_some());
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn one_wait_for_many_jobs_takes_few_connections_and_hears_of_all() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let jobs: Vec<String> =
        (0..60).map(|_| scene.put("q().enqueue_in(in_seconds(1000), tasks.add, 1, 2)")).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let clients = || scene.rq("len(c.client_list())").as_u64().unwrap();
    let (before, mut monitor) = (clients(), Monitor::new(&scene.server));
    let mut waiting = scene.sandbox.command(&[&["job", "wait"], &jobs[..]].concat()).spawn().unwrap();
    wait_until("it listens", || monitor.calls("XREAD") > 0);
    stays(Duration::from_secs(2), "it takes few connections", || clients() <= before + 20);
    scene.sandbox.ok(&[&["job", "cancel"], &jobs[..]].concat());
    wait_until("it hears of the ends", || waiting.try_wait().unwrap().is_some());
}
