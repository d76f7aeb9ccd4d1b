//! The live screen in a real terminal, tmux: what it shows, what its keys do, and that the terminal is sane afterwards.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/redis.rs"]
mod redis_server;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use redis_server::RedisServer;
use sandbox::{Sandbox, Setting, is_root, kill, missing, wait_until};

/// After so many looks the screen is printed, for the one who wonders why the test fails.
const LOOKS: u32 = 300;

/// A tmux server with one window, in which a shell runs `top`.
struct Screen<'a> {
    socket: String,
    sandbox: &'a Sandbox,
}

impl<'a> Screen<'a> {
    /// Opens a window, and `top` in it as soon as the terminal's modes are noted. None without tmux.
    fn open(sandbox: &'a Sandbox, size: (u16, u16), args: &[&str]) -> Option<Screen<'a>> {
        let words: Vec<String> =
            std::iter::once(sandbox.command(&[]).get_program().to_str().unwrap().to_owned())
                .chain(args.iter().map(|word| (*word).to_owned()))
                .collect();
        Screen::run(sandbox, size, &format!("{} 2>stderr", words.join(" ")))
    }

    fn run(sandbox: &'a Sandbox, (columns, lines): (u16, u16), line: &str) -> Option<Screen<'a>> {
        if Command::new("tmux").arg("-V").output().is_err() {
            missing("tmux");
            return None;
        }
        let name = sandbox.path("").file_name().unwrap().to_string_lossy().into_owned();
        let screen = Screen { socket: name, sandbox };
        let dir = |name: &str| sandbox.path(name).display().to_string();
        let (state, run) = (dir("state"), dir("run"));
        // The shell goes on afterwards, as that of a person does.
        let script = format!(
            "stty -g >before; set -m; {line}; echo $? >code; stty -g >after; printf 'the shell is back\\n'; cat >/dev/null"
        );
        let mut command = screen.tmux(&["-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", &columns.to_string(), "-y", &lines.to_string()]);
        for (name, value) in
            [("TASKVISOR_STATE_DIR", &*state), ("TASKVISOR_RUN_DIR", &*run), ("LC_ALL", "C.UTF-8")]
        {
            command.args(["-e", &format!("{name}={value}")]);
        }
        command.args(["sh", "-c", &script]).current_dir(sandbox.path("work"));
        let opened = command.env_remove("TMUX").output().unwrap();
        assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
        Some(screen)
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.socket]).args(args);
        command
    }

    fn ok(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.tmux(args).output().unwrap();
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// The letters on the screen.
    fn text(&self) -> String {
        self.ok(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn shows(&self, what: &str) {
        let mut looks = 0;
        wait_until(&format!("'{what}' is on the screen"), || {
            let text = self.text();
            looks += 1;
            if looks == LOOKS {
                println!("{text}");
            }
            text.contains(what)
        });
    }

    /// Types letters.
    fn types(&self, keys: &str) {
        self.ok(&["send-keys", "-l", "--", keys]);
    }

    /// Presses a key by its name.
    fn presses(&self, key: &str) {
        self.ok(&["send-keys", key]);
    }

    /// The pid of `top`, below the shell.
    fn pid(&self) -> i32 {
        let shell = self.ok(&["display-message", "-p", "#{pane_pid}"]).trim().to_owned();
        let children = format!("/proc/{shell}/task/{shell}/children");
        let mut pid = None;
        wait_until("top runs", || {
            pid = fs::read_to_string(&children)
                .unwrap()
                .split_whitespace()
                .next()
                .map(|pid| pid.parse().unwrap());
            pid.is_some()
        });
        pid.unwrap()
    }

    /// Asserts that the terminal is as it was before, and gives the exit code.
    #[track_caller]
    fn is_sane(&self) -> String {
        self.shows("the shell is back");
        let modes = |name: &str| fs::read_to_string(self.sandbox.work(name)).unwrap();
        assert_eq!(modes("after"), modes("before"), "the modes of the terminal");
        assert_eq!(self.ok(&["display-message", "-p", "#{alternate_on}#{cursor_flag}"]).trim(), "01");
        modes("code").trim().to_owned()
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]).output().ok();
    }
}

fn sandbox() -> Sandbox {
    Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain })
}

#[test]
fn canceled_job_is_seen_to_go_with_its_tree() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "2"]);
    let jid = sandbox.put(&["sh", "-c", "echo begun; sleep 1000 & sleep 1000"]);
    let Some(screen) = Screen::open(&sandbox, (120, 40), &["top"]) else { return };
    screen.shows("sleep");
    screen.types("/sh -c");
    screen.presses("Enter");
    screen.types("jC");
    screen.shows(&format!("taskvisor job cancel --wait {jid} 1 job? Y/n"));
    assert_eq!(sandbox.state(&jid), "running", "nothing is done before the yes");
    screen.types("Y");
    screen.shows("1 job canceled");
    wait_until("no process of it is left", || {
        sandbox.job_processes().iter().all(|seen| seen.comm != "sleep")
    });
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn output_of_a_job_is_followed() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    let go = sandbox.work("go").display().to_string();
    let line = format!(
        "echo first words; while [ ! -e {go} ]; do sleep 0.05; done; printf 'a\\033[2Jb\\n'; sleep 1000"
    );
    sandbox.put(&["sh", "-c", &line]);
    let Some(screen) = Screen::open(&sandbox, (80, 24), &["top"]) else { return };
    screen.types("3");
    screen.shows("running");
    screen.types("l");
    screen.shows("first words");
    fs::write(&go, "").unwrap();
    screen.shows("a\\x1b[2Jb");
    screen.types("qn");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn supervisor_that_is_killed_is_missed_and_found_again() {
    let sandbox = sandbox();
    let running = sandbox.start(&["-w", "2"]);
    let Some(screen) = Screen::open(&sandbox, (80, 24), &["top"]) else { return };
    screen.shows("healthy");
    kill(sandbox.status()["supervisor"]["pid"].as_i64().unwrap() as i32, "KILL");
    wait_until("the workers of the next are shown", || {
        let text = screen.text();
        text.contains("default.1#") && !text.contains("default.1#1 ")
    });
    drop(running);
    screen.shows("no supervisor runs");
    let _next = sandbox.start(&["-w", "3"]);
    screen.shows("0/3");
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn terminal_is_sane_after_stop_and_continue_resize_and_term() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    // Without job control: else the shell would take the terminal as soon as it hears of the stop.
    let line = format!("set +m; {} top 2>stderr", sandbox.command(&[]).get_program().to_str().unwrap());
    let Some(screen) = Screen::run(&sandbox, (80, 24), &line) else { return };
    screen.shows("healthy");
    screen.ok(&["resize-window", "-x", "100", "-y", "30"]);
    wait_until("the last line is the last", || {
        screen.text().lines().nth(29).is_some_and(|line| line.contains("q quit"))
    });
    let pid = screen.pid();
    kill(pid, "STOP");
    kill(pid, "CONT");
    screen.types("?");
    screen.shows("Keys; an uppercase one");
    screen.types("?");
    screen.shows("healthy");
    kill(pid, "TERM");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_it_is_in_the_foreground_again() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    let line = format!("{} top; stty -g >stopped; fg", sandbox.command(&[]).get_program().to_str().unwrap());
    let Some(screen) = Screen::run(&sandbox, (80, 24), &line) else { return };
    screen.shows("healthy");
    screen.presses("C-z");
    let stopped = || fs::read_to_string(sandbox.work("stopped")).unwrap_or_default();
    wait_until("the shell has it", || !stopped().is_empty());
    screen.shows("healthy");
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
    assert_eq!(stopped(), fs::read_to_string(sandbox.work("before")).unwrap());
}

#[test]
fn thousand_slots_are_scrolled_and_filtered() {
    let sandbox = sandbox();
    // None is started: a slot of a paused pool with a command that does not exist would be a thousand processes.
    let _running = sandbox.start_raw(&["-w", "1000"]);
    wait_until("it answers", || {
        sandbox.status()["pools"][0]["slots"].as_array().is_some_and(|all| all.len() == 1000)
    });
    let Some(screen) = Screen::open(&sandbox, (200, 60), &["top", "--read-only"]) else { return };
    screen.shows("default.1#");
    screen.types("G");
    screen.shows("default.1000#");
    screen.types("/default.777#");
    screen.shows("default.777#");
    screen.presses("Enter");
    screen.types("C");
    screen.shows("this screen only looks");
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn job_with_escape_sequences_in_its_name_moves_no_column() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    sandbox.put(&["sleep", "1000.0\u{1b}[2J\u{1b}]0;evil\u{7}\u{202e}漢字"]);
    sandbox.put(&["sh", "-c", "exec sleep 1000", "\u{1b}[31m\u{5e9}\u{5dc}\u{5d5}\u{5dd}漢字"]);
    let Some(screen) = Screen::open(&sandbox, (80, 24), &["top"]) else { return };
    screen.types("3");
    screen.shows("\\x1b[2J");
    let text = screen.text();
    let heads = text.lines().find(|line| line.contains("STATE")).unwrap();
    let at = heads.find("STATE").unwrap();
    let lines = text.lines().take_while(|line| !line.starts_with("──"));
    for line in lines.filter(|line| line.contains(" default ")) {
        let state = line.get(at..).unwrap();
        assert!(
            ["running", "waiting", "failed", "complete"].iter().any(|word| state.starts_with(word)),
            "{text}"
        );
    }
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn without_a_supervisor_it_shows_what_the_store_knows() {
    let sandbox = sandbox();
    sandbox.put(&["true"]);
    let Some(screen) = Screen::open(&sandbox, (140, 24), &["top"]) else { return };
    screen.shows("no supervisor runs");
    screen.types("2");
    screen.shows("default");
    screen.types("P");
    screen.shows("taskvisor queue pause default 1 queue?");
    screen.types("Y");
    screen.shows("default paused");
    screen.shows("paused by uid");
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn over_a_broker_without_a_supervisor_its_jobs_are_seen_and_canceled_and_an_outage_is_told() {
    let (sandbox, server) = (sandbox(), RedisServer::start());
    let (port, url) = (server.port, server.url());
    let put = || sandbox.ok(&["--broker", &url, "put", "--", "sleep", "1000"]).trim().to_owned();
    let jid = put();
    let Some(screen) = Screen::open(&sandbox, (140, 30), &["--broker", &url, "top"]) else { return };
    screen.shows("no supervisor runs");
    screen.types("3");
    screen.shows("waiting default");
    screen.types("C");
    screen.shows("1 job? Y/n");
    screen.types("Y");
    screen.shows("1 job canceled");
    assert!(sandbox.ok(&["--broker", &url, "job", "show", &jid]).contains("canceled"));
    screen.types("2");
    screen.shows("queue default");
    screen.types("P");
    screen.shows(&format!("taskvisor -b {url} queue pause default 1 queue?"));
    screen.types("Y");
    screen.shows("paused by uid");
    drop(server);
    screen.shows("not reached");
    let _again = RedisServer::start_at(port, &[]).unwrap();
    put();
    wait_until("the job of the new server is shown", || {
        let text = screen.text();
        text.contains("default") && !text.contains("not reached") && !text.contains("paused by uid")
    });
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn by_url_a_view_token_looks_and_its_orders_are_refused_in_words() {
    let sandbox = sandbox();
    let owner = fs::metadata(sandbox.path("work")).unwrap();
    for name in ["token", "view"] {
        fs::write(sandbox.work(name), format!("{name}-horse-battery-staple-of-the-page\n")).unwrap();
        fs::set_permissions(sandbox.work(name), fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(sandbox.work(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    let file = sandbox.work("api.yaml");
    let yaml = "api:\n  listen: 127.0.0.1:0\n  token_file: token\n  view_token_file: view\n";
    fs::write(&file, yaml).unwrap();
    let _running = sandbox.start(&["-w", "1", "-c", file.to_str().unwrap()]);
    sandbox.put(&["sleep", "1000"]);
    let mut url = None;
    wait_until("the log says where it listens", || {
        let said = sandbox.stderr();
        let line = said.split_once("the API listens address=").and_then(|(_, rest)| rest.split_once('\n'));
        url = line.map(|(address, _)| format!("http://{address}"));
        url.is_some()
    });
    let args = ["--url", &url.unwrap(), "--token-file", "view", "top"];
    let Some(screen) = Screen::open(&sandbox, (100, 30), &args) else { return };
    screen.shows("busy 1 of 1");
    screen.types("+");
    screen.shows("taskvisor scale default +1");
    screen.types("Y");
    screen.shows("view token does not open");
    screen.types("jK");
    screen.shows("kill -KILL");
    screen.types("Y");
    screen.shows("a worker is killed on its own host");
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

#[test]
fn killed_worker_is_replaced_and_a_hanging_supervisor_is_told() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    sandbox.put(&["sleep", "1000"]);
    let Some(screen) = Screen::open(&sandbox, (120, 30), &["top"]) else { return };
    screen.shows("busy 1 of 1");
    screen.types("jK");
    screen.shows("kill -KILL");
    screen.types("Y");
    screen.shows("1 worker killed");
    let supervisor = sandbox.status()["supervisor"]["pid"].as_i64().unwrap() as i32;
    kill(supervisor, "STOP");
    screen.shows("not reached");
    kill(supervisor, "CONT");
    screen.shows("healthy");
    screen.types("q");
    assert_eq!(screen.is_sane(), "0");
}

/// In tmux the test below runs this test alone; else it does nothing.
#[test]
fn a_panic_on_a_thread_of_the_screen() {
    if std::env::var_os("TV_TOP_PANICS").is_some() {
        let terminal = top::screen::terminal::Terminal::open().unwrap();
        terminal.write("drawn").unwrap();
        panic!("as the test asked");
    }
}

#[test]
fn terminal_is_sane_after_a_panic_which_is_read_on_it() {
    let sandbox = sandbox();
    let own = std::env::current_exe().unwrap().display().to_string();
    let line = format!("TV_TOP_PANICS=1 {own} --exact a_panic_on_a_thread_of_the_screen --nocapture");
    let Some(screen) = Screen::run(&sandbox, (80, 24), &line) else { return };
    assert_eq!(screen.is_sane(), "70");
    screen.shows("as the test asked");
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let sandbox = sandbox();
    let (code, said) = sandbox.refused(&["top"]);
    assert_eq!(code, 2);
    assert!(said.contains("top draws on a terminal") && said.contains("taskvisor status"), "{said}");
    assert!(Path::new("/dev/null").exists());
}
