//! Shell completions and manual pages, generated from the command line's grammar, read by real shells and man.
#![allow(clippy::unwrap_used)]

#[path = "support/sandbox.rs"]
mod sandbox;

use std::path::Path;
use std::process::{Command, Output};

use sandbox::{Sandbox, Setting, is_root, missing};

/// Runs the program where it can read no settings: it needs none.
fn taskvisor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskvisor"));
    command.args(args).env_clear().env("TASKVISOR_CONFIG", "/nowhere/settings.yaml").output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = taskvisor(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The completions that bash offers for the last word.
fn offered(words: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("taskvisor");
    std::fs::write(&script, printed(&["completion", "bash"])).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-euc", ASKS, "bash"]).arg(&script).args(words);
    reply(bash)
}

/// Sources the script and prints the offers of the function that it registers.
const ASKS: &str = r#"
    source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
    registered=$(complete -p taskvisor)
    function=${registered##*-F }; function=${function%% *}
    $function taskvisor "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}""#;

fn reply(mut bash: Command) -> Vec<String> {
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_flags() {
    assert_eq!(offered(&["taskvisor", "recy"]), ["recycle"]);
    assert_eq!(offered(&["taskvisor", "job", "li"]), ["list"]);
    assert!(offered(&["taskvisor", "job", "list", "--"]).contains(&"--state".to_owned()));
    assert_eq!(offered(&["taskvisor", "completion", "f"]), ["fish"]);
}

/// The completions with the names of the supervisor that runs in this sandbox.
fn offered_by(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let bin = sandbox.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_taskvisor"), bin.join("taskvisor")).ok();
    let script = sandbox.path("completion");
    std::fs::write(&script, printed(&["completion", "bash"])).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-euc", ASKS, "bash"]).arg(&script).args(words);
    bash.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    bash.env("TASKVISOR_RUN_DIR", sandbox.path("run")).env("TASKVISOR_STATE_DIR", sandbox.path("state"));
    reply(bash)
}

#[test]
fn bash_completes_pools_queues_states_and_options_of_the_running_supervisor() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let pools = "pools: [{name: mail, queues: [urgent]}, {name: heavy, queues: [bulk]}]\n";
    std::fs::write(sandbox.work("two.yaml"), pools).unwrap();
    let _running = sandbox.start(&["-c", &sandbox.work("two.yaml").display().to_string()]);
    sandbox.ok(&["put", "-q", "bulk", "--delay", "1h", "--", "true"]);
    sandbox.ok(&["put", "-q", "odd name", "--delay", "1h", "--", "true"]);
    let of = |words: &[&str]| offered_by(&sandbox, words);
    assert_eq!(of(&["taskvisor", "scale", ""]), ["mail", "heavy"]);
    assert_eq!(of(&["taskvisor", "recycle", "h"]), ["heavy"]);
    assert_eq!(of(&["taskvisor", "queue", "pause", "bu"]), ["bulk"]);
    assert_eq!(
        of(&["taskvisor", "job", "list", "--queue", ""]),
        ["bulk"],
        "none that a shell would take apart"
    );
    assert_eq!(of(&["taskvisor", "job", "list", "--state", "fa"]), ["failed"]);
    assert_eq!(of(&["taskvisor", "job", "list", "--state", "failed,he"]), ["failed,held"]);
    assert_eq!(of(&["taskvisor", "option", "get", "keep_f"]), ["keep_failed"]);
    assert_eq!(of(&["taskvisor", "why", "slot", "mail."]), ["mail.1"]);
    assert_eq!(of(&["taskvisor", "recy"]), ["recycle"]);
    sandbox.ok(&["stop"]);
    assert_eq!(of(&["taskvisor", "scale", "m"]), [""]);
    assert_eq!(of(&["taskvisor", "queue", "pause", "bu"]), ["bulk"], "the store is asked");
}

/// Sources the script in zsh and prints the supervisor's names that it would offer for the last word.
const ASKS_ZSH: &str = r#"
    autoload -U compinit && compinit -D
    compset() { :; }
    compadd() { [[ $1 == -a ]] && print -l -- ${(P)2} || :; }
    source "$1"; shift
    words=("$@") CURRENT=$#
    _taskvisor_values || print grammar"#;

#[test]
fn zsh_completes_names_of_the_running_supervisor() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    std::fs::write(sandbox.work("two.yaml"), "pools: [{name: mail}, {name: heavy}]\n").unwrap();
    let _running = sandbox.start(&["-c", &sandbox.work("two.yaml").display().to_string()]);
    let script = sandbox.path("completion");
    std::fs::write(&script, printed(&["completion", "zsh"])).unwrap();
    let of = |words: &[&str]| {
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", ASKS_ZSH, "zsh"]).arg(&script).arg(env!("CARGO_BIN_EXE_taskvisor")).args(words);
        zsh.env("TASKVISOR_RUN_DIR", sandbox.path("run")).env("TASKVISOR_STATE_DIR", sandbox.path("state"));
        match zsh.output() {
            Ok(output) => String::from_utf8(output.stdout).unwrap().replace('\n', " "),
            Err(_) => String::new(),
        }
    };
    if of(&[""]).is_empty() {
        return missing("zsh");
    }
    assert_eq!(of(&["scale", ""]), "mail heavy ");
    assert_eq!(of(&["why", "slot", ""]), "mail.1 heavy.1 ");
    assert!(of(&["job", "list", "--state", "failed,h"]).contains("held"));
    assert!(of(&["option", "get", ""]).contains("keep_failed"));
    assert_eq!(of(&["recy"]), "grammar ");
}

/// Asserts that a shell loads its script; reports where the shell is not installed.
fn is_read_by(shell: &str) {
    let script = printed(&["completion", shell]);
    assert!(script.contains("recycle") && script.contains("--") && script.contains("state-dir"), "{script}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("completion");
    std::fs::write(&file, script).unwrap();
    match Command::new(shell).arg("-n").arg(&file).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => missing(shell),
    }
}

#[test]
fn zsh_and_fish_load_their_completion_scripts() {
    is_read_by("zsh");
    is_read_by("fish");
}

#[test]
fn completion_refuses_an_unknown_shell_and_lists_the_known_ones() {
    let output = taskvisor(&["completion", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[possible values: bash, zsh, fish]"));
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH taskvisor 1") && page.contains("Exit codes"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    printed(&["man", dir.path().to_str().unwrap()]);
    for (name, says) in
        [("taskvisor", "recycle"), ("taskvisor-job-list", "\\-\\-state"), ("taskvisor-put", "priority")]
    {
        let page = std::fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")) && page.contains(says), "{name}: {page}");
    }
    if Path::new("/usr/bin/groff").exists() {
        for page in std::fs::read_dir(dir.path()).unwrap().flatten() {
            let output = Command::new("groff")
                .args(["-ww", "-man", "-Tutf8", "-z"])
                .arg(page.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{}: {said}", page.path().display());
        }
    } else {
        missing("groff");
    }
}

#[test]
fn man_names_a_missing_directory() {
    let output = taskvisor(&["man", "/nowhere/man1"]);
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed to write to /nowhere/man1"));
}
