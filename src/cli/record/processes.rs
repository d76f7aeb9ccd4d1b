//! The snapshot of a worker's processes before its end, as lines.

use std::fmt::Write as _;

use crate::cli::term::screen::{age, escaped, size};
use model::{Caught, Snapshot};

/// One line for each process, indented below its parent, with its open files.
pub(crate) fn render(out: &mut String, seen: &Snapshot) {
    for process in &seen.processes {
        // A job decides how deep its tree is, and the screen is not that wide.
        let indent = " ".repeat(2 + 2 * process.depth.min(20) as usize);
        let _ = writeln!(out, "{indent}{}", escaped(&line(process)));
        for name in &process.open {
            let _ = writeln!(out, "{indent}    {}", escaped(name));
        }
        for line in process.stacks.iter().flat_map(|stacks| stacks.lines()) {
            let _ = writeln!(out, "{indent}    {}", escaped(line));
        }
    }
    if seen.left_out > 0 {
        let _ = writeln!(out, "  and {} more", seen.left_out);
    }
}

fn line(process: &Caught) -> String {
    let Caught { name, pid, state, rss, cpu, threads, .. } = process;
    let mut line = format!("{name}({pid}) {state}");
    if let Some(place) = &process.wchan {
        let _ = write!(line, " in {place}");
    }
    if let Some(number) = process.syscall {
        let _ = write!(line, ", system call {number}");
    }
    let _ = write!(line, "  rss {}  cpu {}  threads {threads}", size(*rss), age(*cpu));
    if let Some(files) = process.files {
        let _ = write!(line, "  files {files}{}", if process.open.is_empty() { "" } else { ":" });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_tree_is_drawn_with_wait_channels() {
        let leader = Caught {
            pid: 17,
            name: "python3\x1b".into(),
            state: "D".into(),
            wchan: Some("io_schedule".into()),
            syscall: Some(0),
            rss: 5 << 20,
            threads: 3,
            files: Some(4),
            open: vec!["/dev/null".into(), "/mnt/slow/a b".into()],
            stacks: Some("Current thread:\n  File \"a\u{1b}.py\", line 3 in send\n".into()),
            ..Caught::default()
        };
        let child = Caught { depth: 1, pid: 18, name: "sh".into(), state: "S".into(), ..Caught::default() };
        let mut out = String::new();
        render(&mut out, &Snapshot { processes: vec![leader, child], left_out: 2 });
        let expected = "  python3\\x1b(17) D in io_schedule, system call 0  rss 5.0M  cpu 0ms  threads 3  files 4:\n      \
                        /dev/null\n      /mnt/slow/a b\n      Current thread:\n        File \"a\\x1b.py\", line 3 in send\n    \
                        sh(18) S  rss 0  cpu 0ms  threads 0\n  and 2 more\n";
        assert_eq!(out, expected);
    }
}
