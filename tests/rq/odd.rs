//! Jobs that cannot run, jobs with unknown fields, and the ways of RQ's client to put jobs.

use serde_json::json;

use crate::http::get;
use crate::sandbox::{alive, kill, wait_until};
use crate::scene::{Scene, begun, stop};

#[test]
fn job_that_cannot_be_loaded_fails_with_the_reason_and_the_next_one_runs() {
    let scene = Scene::new();
    let missing = scene.put("q().enqueue('no_such_module.f')");
    let unknown = scene.put("q().enqueue('rq_tasks.no_such_function')");
    let foreign = scene.put("q(serializer=JSONSerializer).enqueue(tasks.add, 1, 2)");
    let broken = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq(&format!("c.hset('rq:job:{broken}', 'data', b'no pickle')"));
    let next = scene.put("q().enqueue(tasks.add, 3, 4)");
    let mut running = scene.start(&["-w", "1"]);
    scene.wait(&next, "finished");
    for (job, words) in [
        (&missing, "no_such_module"),
        (&unknown, "no_such_function"),
        (&foreign, "DeserializationError"),
        (&broken, "DeserializationError"),
    ] {
        assert_eq!(scene.status(job), "failed");
        let said = scene.exception(job);
        assert!(said.contains(words), "{said}");
        let shown = scene.sandbox.job(job);
        assert!(shown["failure"]["message"].is_string() && shown["attempt"] == 1, "{shown}");
    }
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

/// Here ids are texts: nobody could renew or settle such a job.
#[test]
fn job_with_an_id_that_is_not_utf_8_fails_at_once_and_the_next_one_runs() {
    let scene = Scene::new();
    let like = scene.put("q('elsewhere').enqueue(tasks.add, 1, 2, retry=Retry(max=3))");
    let odd = r"b'rq:job:\xff'";
    scene.rq(&format!("c.copy('rq:job:{like}', {odd}) and c.hset({odd}, 'origin', 'default')"));
    scene.rq(r"c.rpush('rq:queue:default', b'\xff')");
    let _running = scene.start(&["-w", "1"]);
    let status = format!("c.hget({odd}, 'status').decode()");
    wait_until("it has failed", || scene.rq(&status) == "failed");
    assert!(scene.rq(r"c.zscore('rq:failed:default', b'\xff')").is_number());
    assert_eq!(scene.rq("c.zcard('rq:wip:default')"), 0);
    assert!(
        scene.sandbox.stderr().contains(r"the id of a job is not UTF-8, so it cannot be run and fails: \xff")
    );
    let next = scene.put("q().enqueue(tasks.add, 3, 4)");
    scene.wait(&next, "finished");
}

/// The longest id that fits into the environment of a program runs. Of one that does not fit no slot goes down.
#[test]
fn job_whose_id_no_program_can_be_given_fails_by_itself() {
    let scene = Scene::new();
    let long = scene.put("q().enqueue(tasks.add, 1, 2, job_id='y' * 131058)");
    let fits = scene.put("q().enqueue(tasks.add, 1, 2, job_id='y' * 131057)");
    let yaml = format!("{{broker: '{}', pools: [{{name: a, workers: 1, run: [/bin/true]}}]}}", scene.url());
    std::fs::write(scene.sandbox.work("pool.yaml"), yaml).expect("settings");
    let mut running = scene.sandbox.start(&["-c", "pool.yaml"]);
    scene.wait(&fits, "finished");
    assert_eq!(scene.status(&long), "failed");
    let said = scene.exception(&long);
    assert!(
        said.contains("its id is too long: a variable of a program's environment may have 131071 bytes"),
        "{said}"
    );
    scene.sandbox.wait_healthy();
    assert!(stop(&mut running).success());
    assert!(!scene.sandbox.stderr().contains("is down"));
}

#[test]
fn unknown_fields_of_a_job_are_kept() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq(&format!(
        "c.hset('rq:job:{job}', mapping={{'colour': 'red', 'rq_next': b'\\xff', 'group_id': ''}})"
    ));
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    let kept =
        format!("[c.hget('rq:job:{job}', 'colour').decode(), c.hget('rq:job:{job}', 'rq_next') == b'\\xff']");
    assert_eq!(scene.rq(&kept), json!(["red", true]));
    assert_eq!((scene.result(&job), scene.sandbox.job(&job)["state"].clone()), (json!(3), json!("complete")));
}

#[test]
fn jobs_of_the_json_serializer_run_in_workers_with_that_flag() {
    let scene = Scene::new();
    let job = scene.put("q(serializer=JSONSerializer).enqueue('rq_tasks.add', 1, b=2)");
    let _running = scene.start_workers(&scene.sandbox, &scene.url(), &["-w", "1"], &["-S", "json"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.rq(&format!("Job.fetch({job:?}, c, JSONSerializer).return_value()")), 3);
    let shown = scene.sandbox.job(&job);
    assert_eq!(
        (&shown["class"], &shown["data"]),
        (&json!("rq_tasks.add"), &json!({"args": [1], "kwargs": {"b": 2}}))
    );
}

#[test]
fn group_unique_and_cron_jobs_of_rq_run() {
    let scene = Scene::new();
    let jobs = "[Queue.prepare_data(tasks.add, (i, 1)) for i in range(3)]";
    let group = format!("len(Group.create(connection=c, name='g').enqueue_many(q(), {jobs}))");
    assert_eq!(scene.rq(&group), 3);
    let unique = "q().enqueue(tasks.add, 1, 1, job_id='one', unique=True).id";
    assert_eq!(scene.text(unique), "one");
    assert_eq!(scene.rq(&format!("raises(lambda: {unique})")), "DuplicateJobError");
    let registered = "cron.register(tasks.add, 'default', (5, 6), interval=60)";
    scene.rq(&format!("(cron := CronScheduler(c, 'CRITICAL'), {registered}, cron.enqueue_jobs())[0].name"));
    let _running = scene.start(&["-w", "2"]);
    scene.wait("one", "finished");
    let sums =
        "sorted(j.return_value() for j in Group.fetch('g', c).get_jobs() if j.get_status() == 'finished')";
    wait_until("the group is done", || scene.rq(sums) == json!([1, 2, 3]));
    let finished = "Job.fetch_many(FinishedJobRegistry('default', c).get_job_ids(), c)";
    let cron = format!("[j.return_value() for j in {finished}].count(11)");
    wait_until("the cron's job is done", || scene.rq(&cron) == json!(1));
}

#[test]
fn killed_template_is_replaced_and_its_jobs_run_on() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("kept", "");
    let template = scene.sandbox.status()["pools"][0]["template"]["process"]["pid"].as_i64().unwrap() as i32;
    kill(template, "KILL");
    wait_until("it is dead", || !alive(template));
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    let next = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&next, "finished");
}

#[test]
fn key_of_another_program_in_one_queue_stops_that_queue_only() {
    let scene = Scene::new();
    scene.rq("c.lpush('rq:wip:high', 'x')");
    let stuck = scene.put("q('high').enqueue(tasks.add, 1, 2)");
    let job = scene.put("q().enqueue(tasks.add, 3, 4)");
    let mut running = scene.start(&["-w", "1", "-q", "high", "-q", "default"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.status(&stuck), "queued");
    wait_until("it is named", || scene.sandbox.stderr().contains("rq:wip:high"));
    scene.rq("c.delete('rq:wip:high')");
    scene.wait(&stuck, "finished");
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn claim_that_a_key_of_another_program_stops_leaves_nothing_behind() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    scene.rq("c.lpush('rq:taskvisor:held', 'x')");
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    wait_until("it is said", || scene.sandbox.stderr().contains("WRONGTYPE"));
    assert_eq!((scene.status(&job), scene.rq("c.exists('rq:wip:default')")), ("queued".into(), json!(0)));
    scene.rq("c.delete('rq:taskvisor:held')");
    scene.wait(&job, "finished");
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn job_whose_registry_was_removed_is_finished_all_the_same() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("registry", "");
    scene.rq("c.delete('rq:wip:default')");
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    let (job, _file) = scene.put_waiting("again", "");
    scene.rq("c.delete('rq:wip:default')");
    kill(scene.sandbox.one("tv-supervisor"), "KILL");
    let released =
        format!("c.hget('rq:job:{job}', 'taskvisor_interrupted') == b'1' and c.zcard('rq:wip:default')");
    wait_until("the job runs again", || scene.rq(&released) == 1);
    wait_until("the supervisor answers", || scene.sandbox.run(&["status"]).status.success());
    scene.sandbox.ok(&["job", "cancel", &job]);
    scene.wait(&job, "stopped");
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("[c.hlen('rq:taskvisor:held'), c.zcard('rq:wip:default')]"), json!([0, 0]));
}

#[test]
fn end_that_cannot_be_written_is_written_once_as_soon_as_it_can() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    scene.rq("[c.set(f'rq:{name}:default', 'x') for name in ('failed', 'finished')]");
    let failing = scene.put("q().enqueue(tasks.fails)");
    wait_until("it is said", || scene.sandbox.stderr().contains("failed to settle"));
    assert_eq!(scene.status(&failing), "started", "nothing is written of it");
    scene.rq("c.delete('rq:failed:default', 'rq:finished:default')");
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&failing, "failed");
    scene.wait(&job, "finished");
    let ids =
        "[FailedJobRegistry('default', c).get_job_ids(), FinishedJobRegistry('default', c).get_job_ids()]";
    assert_eq!(scene.rq(ids), json!([[failing], [job]]));
    assert_eq!(scene.rq(&format!("len(job({failing:?}).results())")), 1);
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn put_that_could_not_write_the_queue_puts_the_job_when_it_is_repeated() {
    let scene = Scene::new();
    scene.rq("c.set('rq:queue:default', 'x')");
    let broker = scene.url();
    let put = |scene: &Scene| {
        scene.sandbox.run(&[
            "-b",
            &broker,
            "put",
            "default",
            "rq_tasks.add",
            r#"{"args":[1,2]}"#,
            "--jid",
            "one",
        ])
    };
    let refused = put(&scene);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(scene.rq("c.exists('rq:job:one')"), 0, "nothing is left of it");
    scene.rq("c.delete('rq:queue:default')");
    assert!(put(&scene).status.success());
    let mut running = scene.start(&["-w", "1"]);
    scene.wait("one", "finished");
    assert!(stop(&mut running).success());
}

#[test]
fn job_that_cannot_go_back_to_its_queue_goes_there_as_soon_as_it_can() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let failed = scene.put("q().enqueue(tasks.fails)");
    scene.wait(&failed, "failed");
    let (job, file) = scene.put_waiting("again", ", retry=Retry(max=1)");
    let due = scene.put("q().enqueue_in(in_seconds(1), tasks.add, 1, 2)");
    scene.rq("c.set('rq:queue:default', 'x')");
    assert!(!scene.sandbox.run(&["job", "retry", &failed]).status.success());
    kill(begun(&file).unwrap(), "KILL");
    wait_until("it is said", || scene.sandbox.stderr().contains("failed to settle"));
    std::fs::remove_file(&file).unwrap();
    scene.rq("c.delete('rq:queue:default')");
    scene.wait(&job, "finished");
    scene.wait(&due, "finished");
    assert_eq!(scene.rq("FailedJobRegistry('default', c).get_job_ids()"), json!([failed]));
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}

#[test]
fn rq_worker_passes_its_environment_without_a_warning() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue('os.getenv', 'OF_THE_CALLER')");
    let mut command = scene.sandbox.command(&["rq", "worker", "-b", "-u", &scene.server.url()]);
    command.env("PYTHONPATH", scene.path()).env("OF_THE_CALLER", "seen");
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !log.contains("passes-all"), "{log}");
    assert_eq!(scene.result(&job), "seen");
}

/// As Sentry does it: its integration replaces a method of RQ's worker.
const PATCHES: &str = "import rq
_perform = rq.Worker.perform_job
def perform(self, *args, **kwargs):
    open('patched', 'w').close()
    return _perform(self, *args, **kwargs)
rq.Worker.perform_job = perform
";

#[test]
fn rq_worker_imports_its_config_module_in_the_workers() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue('os.getpid')");
    std::fs::write(scene.sandbox.work("patches.py"), PATCHES).unwrap();
    let args = ["rq", "worker", "-b", "-c", "patches", "-u", &scene.server.url()];
    let mut command = scene.sandbox.command(&args);
    let output = command.env("PYTHONPATH", scene.path()).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(scene.result(&job).is_i64() && scene.sandbox.work("patched").exists(), "{log}");
}

#[test]
fn rq_worker_says_in_one_line_that_its_config_module_does_not_exist() {
    let scene = Scene::new();
    let mut command = scene.sandbox.command(&["rq", "worker", "-c", "no_such_module"]);
    let output = command.env("PYTHONPATH", scene.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("failed to load no_such_module") && said.contains("-P DIR"), "{said}");
    assert!(!output.status.success() && !said.contains("Traceback"), "{said}");
}

#[test]
fn end_that_the_server_refuses_to_take_is_told_everywhere_until_it_is_taken() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    scene.rq("c.set('rq:finished:default', 'x')");
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    let why = "WRONGTYPE Operation against a key holding the wrong kind of value";
    // A chore that fails once shows in the status for some milliseconds: wait for what lasts.
    wait_until("it has failed for long enough to count", || {
        get(&scene.sandbox, "/metrics").contains("taskvisor_failing_seconds{what=\"failed to settle\"} ")
    });
    wait_until("status says so", || scene.sandbox.reasons().contains("cannot settle job '"));
    assert!(scene.sandbox.reasons().contains(why), "{}", scene.sandbox.reasons());
    assert_eq!(scene.sandbox.status()["health"], "degraded");
    let says = scene.sandbox.ok(&["why", "job", &job]);
    assert!(says.contains("The broker is in trouble: cannot settle job '"), "{says}");
    assert!(says.contains(why), "{says}");
    let ready = get(&scene.sandbox, "/readyz");
    assert!(ready.contains("not ready: broker: cannot settle job '") && ready.contains(why), "{ready}");
    let page = get(&scene.sandbox, "/metrics");
    assert!(page.contains("taskvisor_broker_trouble 1\n"), "{page}");
    assert!(page.contains("taskvisor_failing_seconds{what=\"failed to settle\"} "), "{page}");
    wait_until("the log says so", || {
        let log = scene.sandbox.stderr();
        log.lines().any(|line| line.contains("degraded: broker: cannot settle job '") && line.contains(why))
    });
    scene.rq("c.delete('rq:finished:default')");
    scene.wait(&job, "finished");
    scene.sandbox.wait_healthy();
    assert_eq!(get(&scene.sandbox, "/readyz"), "{}");
    wait_until("the log says that, too", || scene.sandbox.stderr().contains("healthy again after "));
}
