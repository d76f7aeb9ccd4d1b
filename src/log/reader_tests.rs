//! Tests of the reader, over files that the writer thread has written.

use std::fs;
use std::sync::Arc;

use super::*;
use crate::{Outputs, Places};
use model::LogSettings;

struct Stage {
    dir: tempfile::TempDir,
    outputs: Outputs,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let jobs = dir.path().to_owned();
        let job = Arc::new(move |job: &model::JobId| jobs.join(format!("{job}.log")));
        let places = Places { jobs: dir.path().to_owned(), job };
        let outputs = Outputs::start(&LogSettings::default(), places).unwrap();
        Stage { dir, outputs }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("a.log")
    }

    /// Prints without ending the attempt: its file stays open.
    fn print(&self, at: i64, attempt: u32, source: Source, text: &str) {
        let before = fs::metadata(self.log()).map_or(0, |found| found.len());
        self.outputs.output(&"a".into(), Mark { at: Millis(at), attempt, source }, text.as_bytes());
        while fs::metadata(self.log()).map_or(0, |found| found.len()) < before + text.len() as u64 {
            std::thread::yield_now();
        }
    }

    fn reader(&self) -> Reader {
        self.outputs.reader(&"a".into())
    }
}

/// All parts that the reader finds until the present end.
fn rest(reader: &mut Reader) -> String {
    let mut text = Vec::new();
    while let Some(parts) = reader.next_parts().unwrap() {
        parts.into_iter().for_each(|part| text.extend(part.bytes));
    }
    String::from_utf8(text).unwrap()
}

fn read(stage: &Stage, selection: Selection, from: u64, limit: Option<u64>) -> String {
    let mut reader = stage.reader();
    reader.select(selection, from, limit);
    rest(&mut reader)
}

fn of(stream: Source) -> Selection {
    Selection { stream: Some(stream), ..Selection::default() }
}

#[test]
fn output_is_read_by_range_stream_attempt_and_time() {
    let stage = Stage::new();
    stage.print(10, 1, Source::Stdout, "one\ntw");
    stage.print(30, 1, Source::Stderr, "bad\n");
    stage.print(50, 1, Source::Stdout, "o\n");
    stage.print(70, 2, Source::Stdout, "three\n");
    let all = Selection::default();
    assert_eq!(read(&stage, all, 0, None), "one\ntwbad\no\nthree\n");
    assert_eq!(read(&stage, all, 4, Some(5)), "twbad");
    assert_eq!(read(&stage, of(Source::Stderr), 0, None), "bad\n");
    assert_eq!(read(&stage, of(Source::Stdout), 4, None), "two\nthree\n");
    assert_eq!(read(&stage, Selection { attempt: Some(2), ..all }, 0, None), "three\n");
    let between = Selection { since: Some(Millis(30)), until: Some(Millis(70)), ..all };
    assert_eq!(read(&stage, between, 0, None), "bad\no\n");
}

#[test]
fn last_lines_are_those_of_the_selection() {
    let stage = Stage::new();
    let last = |lines, selection| {
        let mut reader = stage.reader();
        reader.select(selection, 0, None);
        reader.to_last_lines(lines).unwrap();
        rest(&mut reader)
    };
    let all = Selection::default();
    assert_eq!(last(3, all), "", "nothing was printed yet");
    stage.print(10, 1, Source::Stdout, "a\nb\n");
    stage.print(30, 1, Source::Stderr, "x\ny\n");
    stage.print(50, 1, Source::Stdout, "c");
    assert_eq!((last(1, all), last(2, all)), ("c".into(), "y\nc".into()));
    assert_eq!((last(2, of(Source::Stdout)), last(9, of(Source::Stdout))), ("b\nc".into(), "a\nb\nc".into()));
    assert_eq!((last(1, of(Source::Stderr)), last(0, all)), ("y\n".into(), String::new()));
    let long = "z".repeat(3 * CHUNK);
    stage.print(70, 1, Source::Stdout, &format!("\n{long}\nend\n"));
    assert_eq!(last(2, all), format!("{long}\nend\n"));
}

#[test]
fn search_for_the_last_lines_reads_a_bounded_number_of_bytes_in_a_step() {
    let stage = Stage::new();
    stage.print(10, 1, Source::Stdout, &"z".repeat(4 * CHUNK));
    for n in 0..40 {
        stage.print(10 + n, 1 + n as u32 % 2, Source::Stdout, "x");
    }
    let steps = |selection| {
        let (mut reader, mut search, mut steps) = (stage.reader(), LastLines::new(1), 1);
        reader.select(selection, 0, None);
        while !reader.search(&mut search).unwrap() {
            steps += 1;
        }
        (steps, reader.at())
    };
    assert_eq!(steps(Selection::default()), (5, 0));
    assert_eq!(steps(Selection { attempt: Some(2), ..Selection::default() }), (1, 0));
}

#[test]
fn last_lines_are_those_before_the_limit() {
    let stage = Stage::new();
    stage.print(10, 1, Source::Stdout, "one\ntwo\nthree\n");
    let last = |lines, from, limit| {
        let mut reader = stage.reader();
        reader.select(Selection::default(), from, Some(limit));
        reader.to_last_lines(lines).unwrap();
        (rest(&mut reader), reader.at())
    };
    assert_eq!(last(1, 0, 8), ("two\n".into(), 8));
    assert_eq!((last(9, 4, 4), last(1, 4, 99)), (("two\n".into(), 8), ("three\n".into(), 14)));
    assert_eq!(last(0, 0, 8), (String::new(), 8));
    assert_eq!(last(1, 99, 8), ("two\n".into(), 8), "shorter than the offset");
}

#[test]
fn limit_holds_for_output_that_was_emptied() {
    let stage = Stage::new();
    stage.print(10, 1, Source::Stdout, "one\ntwo\nthree\n");
    assert_eq!(read(&stage, Selection::default(), 100_000, Some(4)), "one\n");
    assert_eq!(read(&stage, Selection::default(), 100_000, None), "one\ntwo\nthree\n");
    let mut reader = stage.reader();
    reader.select(Selection::default(), 0, Some(18));
    assert_eq!(rest(&mut reader), "one\ntwo\nthree\n");
    fs::remove_file(stage.log()).unwrap();
    assert_eq!(rest(&mut reader), "");
    stage.print(30, 1, Source::Stdout, "new and more\n");
    assert_eq!(rest(&mut reader), "new ");
}

#[test]
fn emptied_output_keeps_its_streams_apart() {
    let stage = Stage::new();
    stage.print(10, 1, Source::Stdout, "out\n");
    stage.print(30, 1, Source::Stderr, "err and more of it\n");
    let (mut out, mut err) = (stage.reader(), stage.reader());
    out.select(of(Source::Stdout), 0, None);
    err.select(of(Source::Stderr), 0, None);
    assert_eq!((rest(&mut out), rest(&mut err)), ("out\n".into(), "err and more of it\n".into()));
    // As logrotate's copytruncate does while the job goes on.
    File::options().write(true).open(stage.log()).unwrap().set_len(0).unwrap();
    stage.print(50, 1, Source::Stderr, "new err\n");
    stage.print(70, 1, Source::Stdout, "new out\n");
    assert_eq!((rest(&mut out), rest(&mut err)), ("new out\n".into(), "new err\n".into()));
    assert_eq!(read(&stage, of(Source::Stdout), 0, None), "new out\n");
    // Cut somewhere, of what is left it is not known where it came from.
    File::options().write(true).open(stage.log()).unwrap().set_len(4).unwrap();
    stage.print(90, 1, Source::Stdout, "last\n");
    let mut reader = stage.reader();
    let marks: Vec<Source> =
        reader.next_parts().unwrap().unwrap().into_iter().map(|part| part.mark.source).collect();
    assert_eq!(marks, [Source::Unknown, Source::Stdout]);
}

#[test]
fn removed_output_is_read_to_its_end_and_then_the_next() {
    let stage = Stage::new();
    stage.print(10, 1, Source::Stdout, "one\n");
    let mut reader = stage.reader();
    assert_eq!(rest(&mut reader), "one\n");
    fs::remove_file(stage.log()).unwrap();
    assert_eq!(rest(&mut reader), "");
    stage.print(30, 1, Source::Stdout, "two\n");
    assert_eq!(rest(&mut reader), "two\n");
}

#[test]
fn removed_output_may_have_been_that_of_jobs_put_before() {
    let stage = Stage::new();
    let removed = |put_at| stage.reader().removed_since(Millis(put_at));
    assert_eq!(removed(0), None, "nothing was removed");
    crate::write_private(&stage.dir.path().join("removed"), "1000000").unwrap();
    assert_eq!((removed(1_060_000), removed(1_060_001)), (Some(Millis(1_000_000)), None));
}

#[test]
fn neither_a_link_nor_a_pipe_is_an_output() {
    let stage = Stage::new();
    crate::write_private(&stage.dir.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(stage.dir.path().join("secret"), stage.log()).unwrap();
    assert!(stage.reader().next_parts().is_err());
    fs::remove_file(stage.log()).unwrap();
    nix::unistd::mkfifo(&stage.log(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(stage.reader().next_parts().is_err(), "and it does not wait for a writer");
}

#[test]
fn characters_are_not_cut() {
    assert_eq!((whole("aé".as_bytes()), whole(&"aé".as_bytes()[..2])), (3, 1));
    assert_eq!((whole(b"\xc3"), whole(b"a\xff")), (1, 2));
}
