//! README.md as a reader runs it: each block as written, in order, in a copy with nothing else. Its outputs are
//! compared with the real ones by shape: numbers, ids and times differ.

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandbox::{Sandbox, Setting, is_root, wait_until};

/// A fenced block, by the language of its fence.
struct Block {
    language: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let (mut found, mut open): (Vec<Block>, bool) = (Vec::new(), false);
    for line in fs::read_to_string("README.md").expect("README.md").lines() {
        match (line.strip_prefix("```"), open) {
            (Some(language), false) => {
                found.push(Block { language: language.into(), text: String::new() });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => found.last_mut().expect("a block").text += &format!("{line}\n"),
            (None, false) => {}
        }
    }
    found
}

impl Block {
    /// The commands behind this prompt.
    fn typed(&self, prompt: &str) -> Option<String> {
        match (self.language.as_str(), prompt) {
            ("sh", "$ ") => Some(self.text.clone()),
            ("console", _) => {
                let lines: Vec<&str> =
                    self.text.lines().filter_map(|line| line.strip_prefix(prompt)).collect();
                (!lines.is_empty()).then(|| lines.join("\n") + "\n")
            }
            _ => None,
        }
    }

    /// Whether the command keeps its terminal: a supervisor that runs on.
    fn stays(&self) -> bool {
        let last = self.text.trim_end().lines().last().unwrap_or_default();
        last.contains(" start ") && !last.contains("--burst")
    }
}

/// Copies the files of the clone that README.md uses, with the built program.
fn copy(to: &Path) {
    let release = to.join("target/release");
    fs::create_dir_all(&release).expect("mkdir");
    let mut cp = Command::new("cp");
    cp.args(["-r", "python", "systemd", "conf", "docs", "README.md", "Cargo.toml"]).arg(to);
    assert!(cp.status().expect("cp").success());
    fs::copy(env!("CARGO_BIN_EXE_taskvisor"), release.join("taskvisor")).expect("a program");
    let bin = to.join("bin");
    fs::create_dir(&bin).expect("mkdir");
    std::os::unix::fs::symlink(release.join("taskvisor"), bin.join("taskvisor")).expect("a link");
    // `cargo` that builds nothing: the program is built for this test.
    let cargo = "#!/bin/sh\ncase \"$1 $2\" in 'run --') shift 2; exec taskvisor \"$@\";; esac\n\
                 echo \"README.md has cargo do something else: $*\" >&2; exit 2\n";
    fs::write(bin.join("cargo"), cargo).expect("written");
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("chmod");
}

/// A shell in the copy, like a terminal of the reader.
fn terminal(sandbox: &Sandbox, clone: &Path, script: &str) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).current_dir(clone).stdin(Stdio::null());
    let path = std::env::var("PATH").expect("PATH");
    shell.env("PATH", format!("{}:{path}", clone.join("bin").display()));
    // As `pip install ./python` would install it.
    shell.env("PYTHONPATH", clone.join("python"));
    for (name, value) in sandbox.command(&[]).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A line with everything that differs from run to run replaced.
fn shape(line: &str) -> String {
    let line = line.split("exec: ").next().unwrap_or_default();
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        // An id, a number with its unit, a time.
        let start =
            rest[..at].rfind(|letter: char| !letter.is_ascii_alphanumeric()).map_or(0, |place| place + 1);
        let start = if rest[start..at].len() > 2 { at } else { start };
        out += &rest[..start];
        out.push('N');
        let tail = &rest[at..];
        let end = tail.find(|letter: char| !(letter.is_ascii_alphanumeric() || ".:-".contains(letter)));
        rest = &tail[end.unwrap_or(tail.len())..];
    }
    out += rest;
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that the program prints each line that README.md shows, by shape; `common` replaces what differs between
/// machines.
#[track_caller]
fn shows(block: &Block, printed: &str, common: impl Fn(&str) -> String) {
    let there: Vec<String> = printed.lines().map(|line| shape(&common(line))).collect();
    for line in block.text.lines().filter(|line| !line.trim().is_empty()) {
        let wanted = shape(&common(line));
        assert!(
            there.contains(&wanted),
            "README.md shows\n{line}\n({wanted}), and this is printed:\n{printed}\n{there:#?}"
        );
    }
}

#[test]
fn readme_commands_work_as_written() {
    let sandbox = Sandbox::new(Setting::Root);
    let clone = sandbox.path("clone");
    copy(&clone);
    let mut terminals = Vec::new();
    let mut printed_last = String::new();
    for block in blocks() {
        if block.language == "python" {
            fs::create_dir_all(clone.join("app")).expect("mkdir");
            fs::write(clone.join("app/tasks.py"), &block.text).expect("written");
        }
        if block.language == "text" && block.text.contains("timeline") {
            let places = |line: &str| line.replace(clone.to_str().expect("text"), "/home/ada");
            shows(&block, &printed_last, places);
        }
        let Some(script) = block.typed("$ ") else { continue };
        if block.stays() {
            let mut shell =
                terminal(&sandbox, &clone, &format!("exec {}", script.trim_start_matches("exec ")));
            let log =
                fs::File::create(sandbox.path(&format!("terminal-{}", terminals.len()))).expect("a file");
            shell.stdout(log.try_clone().expect("a file")).stderr(log);
            terminals.push(shell.spawn().expect("bash"));
            wait_until("it is up", || sandbox.run(&["status", "-q"]).status.success());
            continue;
        }
        let output = terminal(&sandbox, &clone, &script).output().expect("bash");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{}\n{}\n--\n{said}", output.status, printed(&output));
        printed_last = printed(&output);
    }
    assert_eq!(terminals.len(), 2, "README.md starts a pool of programs and one of functions");
    assert!(printed_last.contains("sent to ann@example.org"), "{printed_last}");
    sandbox.ok(&["stop"]);
    for mut terminal in terminals {
        terminal.wait().expect("its end");
    }
}

#[test]
fn readme_status_example_matches_the_output() {
    let block = blocks().into_iter().find(|block| block.text.starts_with("healthy")).expect("a picture");
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "4"]);
    let ended = sandbox.put(&["true"]);
    sandbox.ok(&["job", "wait", &ended]);
    sandbox.ok(&["put", "--time-limit", "10m", "--", "sh", "-c", "setsid sleep 300 & sleep 300"]);
    sandbox.put(&["sh", "-c", "sleep 300 | sleep 301; true"]);
    wait_until("both run", || sandbox.ok(&["status"]).matches("sleep(").count() == 4);
    let picture = sandbox.ok(&["status"]);
    // In a narrow terminal the job has a line of its own.
    let picture = picture.replace("  job ", "\njob ");
    let common = |line: &str| {
        let line = line.trim_start_matches(['├', '└', '─', '│', ' ']).replace(", 1 failed", "");
        let sleeps =
            ["tar(", "gzip(", "sha256sum("].iter().fold(line, |line, name| line.replace(name, "sleep("));
        let line = sleeps.replace(") R", ") S");
        let line = line.split("sqlite:").next().unwrap_or_default();
        if line.starts_with("host ") { "host".into() } else { line.to_owned() }
    };
    shows(&block, &picture, common);
    sandbox.ok(&["stop", "--kill"]);
}

/// The reader's machine in a mount namespace: the installed files vanish with it.
const MACHINE: &str = r#"
mount -t tmpfs none /usr/local/bin
cp -a /etc "$SCRATCH/etc" && mount --bind "$SCRATCH/etc" /etc
for name in systemctl; do ln -s "$SCRATCH/$name" /usr/local/bin/$name; done
export PATH=/usr/local/bin:$PATH
"#;

#[test]
fn readme_root_commands_install_a_service() {
    if !is_root() {
        sandbox::missing("root");
        return;
    }
    let sandbox = Sandbox::new(Setting::Root);
    let clone = sandbox.path("clone");
    copy(&clone);
    let scratch: PathBuf = sandbox.path("scratch");
    fs::create_dir(&scratch).expect("mkdir");
    // No systemd runs here (tests/systemd.rs boots one). This fake systemctl accepts the expected calls only.
    let systemctl = "#!/bin/sh\ncase \"$*\" in daemon-reload) ;;\n'enable --now taskvisor')\n\
                     exec /usr/local/bin/taskvisor --version && test -f /etc/systemd/system/taskvisor.service;;\n\
                     *) echo \"what is systemctl $*?\" >&2; exit 2;; esac\n";
    fs::write(scratch.join("systemctl"), systemctl).expect("written");
    fs::set_permissions(scratch.join("systemctl"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let typed: Vec<String> = blocks().iter().filter_map(|block| block.typed("# ")).collect();
    assert_eq!(typed.len(), 1, "{typed:?}");
    let after = "getent passwd taskvisor\ngrep -q '^ExecStart=/usr/local/bin/taskvisor ' /etc/systemd/system/taskvisor.service\n";
    let script = format!("{MACHINE}{}{after}", typed[0]);
    let shell = terminal(&sandbox, &clone, "");
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "--propagation", "private", "bash", "-euo", "pipefail", "-c", &script]);
    apart.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("SCRATCH", &scratch);
    let output = apart.current_dir(&clone).output().expect("unshare");
    drop(shell);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{}\n--\n{said}", printed(&output));
    assert!(printed(&output).contains("taskvisor:x:"), "{}", printed(&output));
}
