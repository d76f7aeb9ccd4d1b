//! Modules that a template imports by itself, as its jobs have needed them.

use serde_json::{Value, json};

use crate::sandbox::{Running, wait_until};
use crate::scene::{Scene, stop};

/// Modules of an application, in a directory that the workers look into.
struct Modules<'a>(&'a Scene);

impl Modules<'_> {
    /// Writes a module whose jobs say which process has imported it, and a word.
    fn write(&self, name: &str, import: &str, word: &str) {
        let text = format!(
            "import os\n{import}\nPID = os.getpid()\ndef look():\n    return [PID == os.getpid(), {word:?}]\n"
        );
        let new = self.0.file("new");
        std::fs::write(&new, text).expect("a module");
        std::fs::rename(new, self.0.file(&format!("{name}.py"))).expect("a module in its place");
    }

    fn start(&self) -> Running<'_> {
        let place = self.0.file("");
        let place = place.to_str().expect("text");
        self.0.start_workers(
            &self.0.sandbox,
            &self.0.url(),
            &["-w", "2"],
            &["--preload", "auto", "-P", place],
        )
    }

    /// Whether a job has imported its module itself, and the word of the module.
    fn look(&self, name: &str) -> Value {
        let job = self.0.put(&format!("q().enqueue('{name}.look')"));
        self.0.wait(&job, "finished");
        assert_eq!(self.0.sandbox.job(&job)["attempt"], 1);
        self.0.result(&job)
    }

    fn template(&self) -> Value {
        self.0.sandbox.status()["pools"][0]["template"].clone()
    }
}

#[test]
fn module_that_a_job_has_loaded_is_preloaded_and_status_names_it() {
    let scene = Scene::new();
    let modules = Modules(&scene);
    modules.write("tasks_one", "", "first");
    let mut running = modules.start();
    assert_eq!(modules.look("tasks_one"), json!([true, "first"]));
    wait_until("status names it", || modules.template()["preloaded"] == json!(["tasks_one"]));
    assert!(scene.sandbox.ok(&["status"]).contains("preloaded: tasks_one"));
    // Two forks were made before it; the third has it.
    wait_until("forks have it", || modules.look("tasks_one") == json!([false, "first"]));
    assert!(stop(&mut running).success());
}

#[test]
fn module_that_opens_a_socket_stays_with_its_jobs_and_status_says_why() {
    let scene = Scene::new();
    let modules = Modules(&scene);
    modules.write("tasks_open", "import socket\nopen_socket = socket.socket()", "first");
    let mut running = modules.start();
    modules.look("tasks_open");
    wait_until("status says why", || {
        let template = modules.template();
        let said = template["warning"].as_str().unwrap_or_default();
        said.starts_with(
            "tasks_open is not imported for all jobs, but by each that needs it: it opens socket:[",
        )
    });
    (0..3).for_each(|_| assert_eq!(modules.look("tasks_open"), json!([true, "first"])));
    assert!(stop(&mut running).success());
}

#[test]
fn code_that_changes_on_disk_counts_for_the_next_job() {
    let scene = Scene::new();
    let modules = Modules(&scene);
    modules.write("tasks_old", "", "0");
    let mut running = modules.start();
    for change in 1..=3 {
        wait_until("forks have it", || modules.look("tasks_old")[0] == false);
        modules.write("tasks_old", "", &change.to_string());
        assert_eq!(modules.look("tasks_old")[1], change.to_string());
    }
    // Its template leaves by its own word, soon after its start: no crash, after which the next one would wait.
    let said = scene.sandbox.stderr();
    assert_eq!((&modules.template()["restarts"], said.contains(" died")), (&json!(0), false), "{said}");
    assert!(stop(&mut running).success());
    assert!(scene.sandbox.stderr().contains("has changed: a new template imports it again"));
}
