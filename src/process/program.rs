//! The outcome of a job, from the exit of its program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::life::Life;
use super::plan::{Places, Plan, Started};
use model::{Exit, ExitStatus, Failure, Outcome, WorkerId};
use wire::fault::Fault;
use wire::program::{Failed, Said, Step};

/// The outcome by what the child said before it became the program, and by the program's exit. None for a signal: that
/// is a crash. A child that was killed for want of memory had begun: its order may have been too large for it.
pub(super) fn outcome(program: &Started, exit: &Exit, said: Said, stderr: &str) -> Option<Outcome> {
    let Started { name, places, by_job } = program;
    match said {
        Said::Nothing if !exit.oom => return Some(Outcome::NotBegun),
        Said::Nothing | Said::Begun => {}
        Said::Failed(failed) => {
            let failure = never_ran(name, places, (failed, by_job.length));
            return Some(match Fault::of(failed, *by_job) {
                Fault::Job => Outcome::FailedForGood(failure),
                Fault::Moment => Outcome::Failed(failure),
                Fault::Host => Outcome::CannotBegin(failure.message),
            });
        }
    }
    match exit.status {
        ExitStatus::Code(0) => Some(Outcome::Complete { result: None, next: None }),
        ExitStatus::Code(code) => {
            let group = format!("exit {code}");
            let message = match stderr.trim_end().lines().next_back() {
                Some(words) => words.to_owned(),
                None => format!("{name} ended with exit code {code}"),
            };
            Some(Outcome::Failed(Failure { group, message, trace: None }))
        }
        ExitStatus::Signal { .. } => None,
    }
}

/// Why a worker never took a job, as far as that is known.
pub(super) fn stillborn(life: &Life, plan: &Plan, worker: WorkerId) -> String {
    let Some(failed) = life.channel.failed() else { return life.stray.tail() };
    let command = plan.command(worker);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = command.argv.first().map(|name| text(name)).unwrap_or_default();
    never_ran(&name, &plan.places(&command.cwd), (failed, false)).message
}

/// The file that a name without `/` stands for: the first that is there, as far as can be seen.
fn searched(name: &str, Places { cwd, path }: &Places) -> Option<PathBuf> {
    let dirs = path.split(':').map(|dir| if dir.is_empty() { "." } else { dir });
    let files = dirs.map(|dir| Path::new(dir).join(name));
    files.into_iter().find(|file| Path::new(cwd).join(file).is_file())
}

/// Why a file cannot be run that the job or the pool names: the system blames it for its interpreter, too.
/// None = there is no such file, or it says no more than the system.
fn reason(errno: Errno, cwd: &Path, name: &Path) -> Option<String> {
    let path = cwd.join(name);
    // Also lest a FIFO is opened.
    if !path.is_file() {
        return None;
    }
    let mut start = Vec::new();
    // The kernel itself looks at no more of a file for its `#!` (BINPRM_BUF_SIZE).
    File::open(&path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let Some(line) = start.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next())
    else {
        return Some(without_line(errno, &start)?.into());
    };
    let words = line.trim_ascii();
    let shown = String::from_utf8_lossy(words).into_owned();
    let interpreter = words.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let interpreter = cwd.join(OsStr::from_bytes(interpreter));
    match (errno, words.is_empty()) {
        (Errno::ENOENT, _) if line.ends_with(b"\r") => Some(
            "its lines end with CR LF, so that the CR belongs to the name of its interpreter (sed -i 's/\\r$//')".into(),
        ),
        // The file or its interpreter has come back since.
        (Errno::ENOENT, _) if interpreter.exists() => Some("it was not there for a moment".into()),
        (Errno::ENOENT, _) => Some(format!("its interpreter is not there: {shown}")),
        (Errno::EACCES, false) if may_run(&path) && !may_run(&interpreter) => {
            Some(format!("its interpreter is not executable: {shown}"))
        }
        (Errno::ENOEXEC, true) => Some("its #! line names no interpreter".into()),
        (Errno::ENOEXEC, false) => Some(format!("its interpreter is no program: {shown}")),
        (Errno::ELOOP, false) => Some(format!(
            "its interpreter is a script, too, and so is that one's, in a circle or more often than the system follows: \
             {shown}"
        )),
        _ => None,
    }
}

/// The same for a file that begins like this and has no `#!` line.
fn without_line(errno: Errno, start: &[u8]) -> Option<&'static str> {
    match (errno, start.is_empty()) {
        (Errno::ENOENT, _) => Some("the loader or a library that it names is not there"),
        (Errno::ENOEXEC, true) => Some("it is empty"),
        (Errno::ENOEXEC, false) if start.starts_with(b"\x7fELF") => {
            Some("it is a program for machines of another kind, or damaged")
        }
        (Errno::ENOEXEC, false) => {
            Some("it is no program, and has no #! line that names its interpreter, as #!/bin/sh")
        }
        _ => None,
    }
}

/// Whether it is a file that somebody may run.
fn may_run(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Why a parked child could not become its program; also whether a job's arguments alone are too long.
fn never_ran(name: &str, places: &Places, (failed, is_long): (Failed, bool)) -> Failure {
    let (errno, cwd) = (Errno::from_raw(failed.errno), places.cwd.as_str());
    let is_path = failed.step == Step::Exec && name.contains('/');
    let found = if is_path || name.is_empty() { None } else { searched(name, places) };
    let file = found.clone().or_else(|| is_path.then(|| name.into())).filter(|_| failed.step == Step::Exec);
    let reason = file.and_then(|file| reason(errno, Path::new(cwd), &file));
    let at = found.map(|file| format!(" ({})", file.display())).unwrap_or_default();
    let cannot = |why: &str| format!("'{name}'{at} cannot run: {why}");
    let (group, message) = match (failed.step, errno, reason) {
        (Step::Exec, Errno::ENOENT, Some(why)) => ("not found", cannot(&why)),
        (Step::Exec, Errno::ENOENT, None) if is_path => ("not found", format!("no program '{name}'")),
        (Step::Exec, Errno::ENOENT, None) => ("not found", format!("no program '{name}' in PATH")),
        (Step::Exec, Errno::EACCES, Some(why)) => ("not executable", cannot(&why)),
        (Step::Exec, Errno::EACCES, None) => ("not executable", format!("'{name}' is not executable")),
        (Step::Exec, _, Some(why)) => ("cannot start", cannot(&why)),
        (Step::Exec, Errno::ENOEXEC, None) => {
            ("cannot start", cannot("it is no program of this machine, nor a script whose #! line names one"))
        }
        (Step::Exec, Errno::E2BIG, None) if !is_long => (
            "too long",
            format!(
                "what the pool sets for '{name}' is longer than the system allows: its command (run) with its environment (env)"
            ),
        ),
        (Step::Exec, Errno::E2BIG, None) => (
            "too long",
            format!(
                "the arguments and the environment of '{name}' are longer than the system allows; give data by stdin (put \
                 --data)"
            ),
        ),
        (Step::Chdir, ..) => ("no directory", format!("failed to change to '{cwd}': {}", errno.desc())),
        (step, ..) => ("cannot start", format!("failed to {} '{name}': {}", step.as_str(), errno.desc())),
    };
    Failure { group: group.into(), message, trace: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(cwd: &Path, path: &str) -> Places {
        Places { cwd: cwd.display().to_string(), path: path.into() }
    }

    /// A directory, and what is said when a file there with a text and a mode cannot be run for an error.
    fn said(dir: &Path, name: &str, (mode, text): (u32, &str), errno: Errno) -> String {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let failed = Failed { step: Step::Exec, errno: errno as i32 };
        never_ran(&format!("./{name}"), &places(dir, ""), (failed, false)).message
    }

    #[test]
    fn program_whose_interpreter_is_missing_is_not_said_to_be_missing() {
        let dir = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str| said(dir.path(), name, (0o755, text), Errno::ENOENT);
        assert!(
            said("crlf", "#!/bin/sh\r\necho\r\n")
                .starts_with("'./crlf' cannot run: its lines end with CR LF")
        );
        assert_eq!(
            said("lost", "#! /no/such -x\n"),
            "'./lost' cannot run: its interpreter is not there: /no/such -x"
        );
        assert_eq!(said("back", "#!/bin/sh -e\n"), "'./back' cannot run: it was not there for a moment");
        let failed = Failed { step: Step::Exec, errno: Errno::ENOENT as i32 };
        let none = never_ran("./none", &places(dir.path(), ""), (failed, false));
        assert_eq!(none.message, "no program './none'");
        let searched = |name| {
            let path = format!("/nowhere:{}", dir.path().display());
            never_ran(name, &places(Path::new("/"), &path), (failed, false)).message
        };
        let file = dir.path().join("lost");
        let why =
            format!("'lost' ({}) cannot run: its interpreter is not there: /no/such -x", file.display());
        assert_eq!((searched("lost"), searched("none").as_str()), (why, "no program 'none' in PATH"));
    }

    #[test]
    fn what_is_too_long_is_said_of_the_one_who_has_set_it() {
        let failed = Failed { step: Step::Exec, errno: Errno::E2BIG as i32 };
        let said = |is_long| never_ran("x", &places(Path::new("/"), ""), (failed, is_long)).message;
        assert!(said(true).contains("put --data") && !said(false).contains("put --data"));
        assert!(said(false).contains("what the pool sets for 'x'"), "{}", said(false));
    }

    #[test]
    fn script_that_the_system_cannot_run_is_told_what_its_first_line_lacks() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let said = |mode, text: &str, errno| {
            let said = said(dir.path(), "it", (mode, text), errno);
            said.strip_prefix("'./it' ").expect("it is named").to_owned()
        };
        for (mode, text, errno, why) in [
            (0o755, "echo hello\n", Errno::ENOEXEC, "cannot run: it is no program, and has no #! line"),
            (0o755, "", Errno::ENOEXEC, "cannot run: it is empty"),
            (0o755, "\x7fELF", Errno::ENOEXEC, "cannot run: it is a program for machines of another kind"),
            (0o755, "#!\n", Errno::ENOEXEC, "cannot run: its #! line names no interpreter"),
            (
                0o755,
                "#!/etc/hostname\n",
                Errno::ENOEXEC,
                "cannot run: its interpreter is no program: /etc/hostname",
            ),
            (
                0o755,
                "#!folder -e\n",
                Errno::EACCES,
                "cannot run: its interpreter is not executable: folder -e",
            ),
            (0o644, "#!folder -e\n", Errno::EACCES, "is not executable"),
            (0o755, "#!/bin/sh\n", Errno::EACCES, "is not executable"),
            (0o755, "#!./it\n", Errno::ELOOP, "cannot run: its interpreter is a script, too"),
        ] {
            assert!(said(mode, text, errno).starts_with(why), "{text:?}: {}", said(mode, text, errno));
        }
        let failed = Failed { step: Step::Exec, errno: Errno::ENOEXEC as i32 };
        assert!(
            never_ran("it", &places(Path::new("/"), ""), (failed, false))
                .message
                .starts_with("'it' cannot run: it is no program of this")
        );
    }
}
