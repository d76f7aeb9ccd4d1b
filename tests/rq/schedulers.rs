//! Several schedulers of one queue: due jobs run once each, whoever puts them.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::sandbox::{Sandbox, Setting, wait_until};
use crate::scene::{Scene, stop};

/// Jobs that are due at a time: RQ's scheduler reads all of them before it puts the first.
const COUNT: usize = 100;
const LOCK: &str = "rq:scheduler-lock:default";

/// RQ's own worker with its scheduler.
struct Theirs(Child);

impl Theirs {
    fn start(scene: &Scene) -> Theirs {
        let mut command = Command::new("python3");
        let url = scene.server.url();
        let flags =
            ["-c", "from rq.cli import main; main()", "worker", "--with-scheduler", "-u", &url, "default"];
        let command = command.args(flags).env("PYTHONPATH", scene.path()).current_dir(scene.file(""));
        Theirs(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3"))
    }

    fn stop(mut self) {
        nix::sys::signal::kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Asserts that jobs which are due at the same time run once each, and that the lock stays with its owner.
fn due_jobs_run_once(scene: &Scene, name: &str) {
    let (file, owned) = (scene.file(name), owner(scene));
    let jobs = scene.rq(&format!(
        "[q().enqueue_at(at, tasks.note, {file:?}, str(i)).id \
         for at in [datetime.datetime.now(datetime.timezone.utc) + in_seconds(2)] for i in range({COUNT})]"
    ));
    wait_until("all are done", || scene.rq(&format!("set(statuses({jobs})) == {{'finished'}}")) == true);
    wait_until("none is left in the queue", || scene.rq("c.llen('rq:queue:default')") == 0);
    let text = std::fs::read_to_string(&file).unwrap();
    let mut ran: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..COUNT).collect::<Vec<_>>(), "{name}");
    assert_eq!(owner(scene), owned, "{name}");
}

fn owner(scene: &Scene) -> String {
    scene.text(&format!("(c.get('{LOCK}') or b'').decode()"))
}

#[test]
fn two_supervisors_put_each_due_job_once_and_one_takes_over_from_the_other() {
    let scene = Scene::new();
    let mut first = scene.start(&["-w", "1"]);
    wait_until("it schedules", || !owner(&scene).is_empty());
    let owned = owner(&scene);
    let second = Sandbox::new(Setting::Root);
    let mut other = scene.start_in(&second, &scene.url(), &["-w", "1"]);
    due_jobs_run_once(&scene, "both");
    assert_eq!(owner(&scene), owned, "the first one's");
    assert!(stop(&mut first).success());
    wait_until("the other one takes over", || !["", &*owned].contains(&&*owner(&scene)));
    due_jobs_run_once(&scene, "second");
    assert!(stop(&mut other).success());
    assert_eq!(owner(&scene), "", "a stop frees the lock");
}

#[test]
fn lock_of_a_scheduler_that_puts_nothing_is_named() {
    let scene = Scene::new();
    scene.rq(&format!("c.set('{LOCK}', 'gone-for-ever')"));
    let _running = scene.start(&["-w", "1"]);
    let file = scene.file("due");
    let job = scene.put(&format!("q().enqueue_in(in_seconds(1), tasks.note, {file:?}, 'ran')"));
    let says = |name: &str| format!("'{job}', as the scheduler '{name}' keeps the lock {LOCK}");
    wait_until("status says so", || scene.sandbox.reasons().contains(&says("gone-for-ever")));
    assert_eq!(scene.status(&job), "scheduled");
    scene.rq(&format!("c.delete('{LOCK}')"));
    scene.wait(&job, "finished");
    scene.sandbox.wait_healthy();
}

#[test]
fn supervisor_and_the_scheduler_of_rq_put_each_due_job_once() {
    let scene = Scene::new();
    let theirs = Theirs::start(&scene);
    wait_until("RQ's scheduler has the lock", || !owner(&scene).is_empty());
    let mut ours = scene.start(&["-w", "1"]);
    due_jobs_run_once(&scene, "theirs");
    theirs.stop();
    wait_until("ours has the lock", || owner(&scene).contains("-scheduler-"));
    due_jobs_run_once(&scene, "ours");
    let theirs = Theirs::start(&scene);
    wait_until("RQ's worker is there", || scene.rq("len(Worker.all(c))") == 2);
    due_jobs_run_once(&scene, "beside");
    theirs.stop();
    assert!(stop(&mut ours).success());
}
