//! What the live screen costs: `cargo bench --bench top`. The time of a frame with 1,000 slots at 200x60 and of a key to the
//! screen, the bytes of a quiet second, CPU and wake-ups, and memory. `script` of util-linux is the terminal.

#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use model::{Millis, Status};
use sandbox::{Sandbox, Setting, pids, wait_until};
use support::{cpu_of, private, rss, switches};
use term::screen::Look;
use top::ask::{List, News, Seen};
use top::keys::press;
use top::screen::decode::Key;
use top::screen::paint::paint;
use top::state::Model;
use top::thing::Tab;
use top::view::draw;

fn main() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start_raw(&["-w", "1000"]);
    wait_until("1,000 slots are there", || {
        sandbox.status()["pools"][0]["slots"].as_array().is_some_and(|slots| slots.len() == 1000)
    });
    let status: Status = serde_json::from_str(&sandbox.ok(&["status", "--json"])).expect("a status");
    frames(&status);
    screen(&sandbox, "1,000 slots");
    drop(_running);
    let small = Sandbox::new(Setting::Root);
    let _running = small.start(&["-w", "8"]);
    screen(&small, "8 slots");
}

/// The `p`-th part of sorted times.
fn part(times: &[Duration], p: f64) -> Duration {
    times[((times.len() - 1) as f64 * p) as usize]
}

fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!("{what:<44} p50 {:?}  p99 {:?}", part(&times, 0.5), part(&times, 0.99));
}

/// The time to draw a frame and to find what has changed, after a key and after a look.
fn frames(status: &Status) {
    let seen = |at: i64| {
        let (status, place) = (Some(status.clone()), String::new());
        News::Seen(Box::new(Seen {
            at: Millis(at),
            place,
            status,
            pressure: None,
            waits: None,
            tab: Tab::Slots,
            list: Ok(List::None),
        }))
    };
    let mut model = Model::new(Look { color: true, ..Look::piped(80) }, (200, 60), true);
    model.hear(seen(1_000));
    let mut shown = draw(&model);
    let mut after = |model: &Model| {
        let next = draw(model);
        let bytes = paint(Some(&shown), &next, true).len();
        shown = next;
        bytes
    };
    let (mut keys, mut looks, mut bytes) = (Vec::new(), Vec::new(), 0);
    for n in 0..500 {
        let start = Instant::now();
        press(&mut model, Key::PageDown);
        bytes += after(&model);
        keys.push(start.elapsed());
        if n % 17 == 0 {
            press(&mut model, Key::Home);
        }
        let next = seen(2_000 + n * 1_000);
        let start = Instant::now();
        model.hear(next);
        after(&model);
        looks.push(start.elapsed());
    }
    tell("a key and its frame, 1,000 slots, 200x60", keys);
    tell("a look and its frame", looks);
    println!("{:<44} {}", "bytes of a page", bytes / 500);
}

/// `top` on a terminal of 200 columns and 60 lines.
struct Top {
    script: Child,
    keys: ChildStdin,
    pid: i32,
    bytes: Arc<AtomicU64>,
    drawn: mpsc::Receiver<()>,
}

impl Top {
    fn open(sandbox: &Sandbox) -> Top {
        let binary = sandbox.command(&[]).get_program().to_str().expect("a path").to_owned();
        let line = format!("stty cols 200 rows 60; exec {binary} top");
        let mut command = sandbox.command(&[]);
        let mut script = std::process::Command::new("script");
        script
            .args(["-q", "-f", "-c", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        for (name, value) in command.current_dir("/").get_envs() {
            if let Some(value) = value {
                script.env(name, value);
            }
        }
        let mut script =
            script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux has script");
        let (keys, mut out) = (script.stdin.take().expect("stdin"), script.stdout.take().expect("stdout"));
        let (bytes, (draws, drawn)) = (Arc::new(AtomicU64::new(0)), mpsc::channel());
        let count = bytes.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(read @ 1..) = out.read(&mut buffer) {
                count.fetch_add(read as u64, Ordering::Relaxed);
                let _ = draws.send(());
            }
        });
        let typed = format!("{binary}\0top\0").into_bytes();
        let mut pid = 0;
        wait_until("top runs", || {
            let is_top =
                |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == typed);
            pid = pids().find(is_top).unwrap_or(0);
            pid != 0 && bytes.load(Ordering::Relaxed) > 2_000
        });
        Top { script, keys, pid, bytes, drawn }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a key");
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.keys.write_all(b"q");
        let _ = self.script.wait();
    }
}

/// Measures a screen: keys, then rest, then frozen.
fn screen(sandbox: &Sandbox, what: &str) {
    const REST: Duration = Duration::from_secs(20);
    let mut top = Top::open(sandbox);
    std::thread::sleep(Duration::from_secs(3));
    let mut times = Vec::new();
    for n in 0..300 {
        while top.drawn.try_recv().is_ok() {}
        let start = Instant::now();
        top.types(if n % 2 == 0 { "G" } else { "g" });
        top.drawn.recv_timeout(Duration::from_secs(5)).expect("a frame");
        times.push(start.elapsed());
        // At all moments of the second, so that looks are among them.
        std::thread::sleep(Duration::from_millis(37 + n % 11));
    }
    tell(&format!("key to the screen, {what}"), times);
    for (state, key) in [("at rest", ""), ("frozen", "p")] {
        top.types(key);
        std::thread::sleep(Duration::from_secs(2));
        let (before, bytes) = ((cpu_of(top.pid), switches(top.pid)), top.bytes.load(Ordering::Relaxed));
        std::thread::sleep(REST);
        let (after, seconds) = ((cpu_of(top.pid), switches(top.pid)), REST.as_secs_f64());
        println!(
            "{:<44} {:.2} % of a core  {:.1} wake-ups/s  {:.0} bytes/s",
            format!("{what}, {state}"),
            (after.0 - before.0).as_secs_f64() / seconds * 100.0,
            (after.1 - before.1) as f64 / seconds,
            (top.bytes.load(Ordering::Relaxed) - bytes) as f64 / seconds
        );
    }
    println!(
        "{:<44} {} KB resident, {} KB its own",
        format!("memory, {what}"),
        rss(top.pid),
        private(top.pid)
    );
}
