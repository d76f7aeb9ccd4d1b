use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

#[test]
fn names_are_those_of_a_user_and_a_number_below_the_limit() {
    assert_eq!(uid_in(&name_of(1000, PUTS - 1)), Some(1000));
    for odd in
        ["1000.10000", "1000", "01.1", "1.01", "+1.1", "-1.1", "1.1.1", ".1", "1.", "4294967296.1", "1.x"]
    {
        assert_eq!(uid_in(odd), None, "{odd}");
    }
}

#[test]
fn closed_spool_is_not_made_and_an_open_one_is_closed_again() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(Desk::open(state.path(), None).unwrap().is_none());
    let own = nix::unistd::getegid().as_raw();
    let desk = Desk::open(state.path(), Some(own)).unwrap().unwrap();
    let mode = |dir: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(dir).unwrap()) & 0o7777
    };
    assert_eq!((mode(desk.dir()), mode(state.path())), (DIR_MODE, 0o711));
    assert!(Spool::find(state.path(), |_, _| true).is_none(), "it is our own");
    assert_eq!(mode(Desk::open(state.path(), None).unwrap().unwrap().dir()), 0o700);
    assert_eq!(mode(state.path()), 0o700, "nobody else passes any more");
}

/// A spool of this user, open to the group of this user.
fn desk(state: &Path) -> Desk {
    Desk::open(state, Some(nix::unistd::getegid().as_raw())).unwrap().unwrap()
}

fn own(number: u32) -> String {
    name_of(nix::unistd::geteuid().as_raw(), number)
}

fn leave(desk: &Desk, name: &str, mode: u32) {
    let path = desk.dir().join(name);
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_no_put_hides_none_and_the_first_puts_are_seen_where_there_are_too_many() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    for number in 0..20 {
        leave(&desk, &own(number), 0o600);
    }
    for (at, number) in (20..30).enumerate() {
        leave(&desk, &own(number), MARK);
        clock_passes(&desk, at);
    }
    let look = desk.look_at(4).unwrap();
    let names: Vec<String> = look.puts.into_iter().map(|put| put.name).collect();
    assert_eq!((names, look.has_more), ((20..24).map(own).collect(), true));
    assert!(!desk.look_at(10).unwrap().has_more);
}

/// Waits until files that are made now are later than all before, by the clock of files.
fn clock_passes(desk: &Desk, round: usize) {
    let probe = |name: String| {
        let path = desk.dir().join(name);
        fs::write(&path, "").unwrap();
        let found = fs::metadata(&path).unwrap();
        fs::remove_file(&path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let before = probe(format!("probe-{round}"));
    while probe(format!("probe-{round}")) == before {}
}

#[test]
fn name_of_any_length_is_set_aside_and_takes_the_place_of_no_other() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    for last in ["a", "b", "c"] {
        let name = "\u{e9}".repeat(127) + last;
        leave(&desk, &name, MARK);
    }
    let look = desk.look().unwrap();
    assert_eq!((look.puts.len(), look.odd.len()), (0, 3));
    for (path, why) in look.odd {
        desk.set_aside(&path, &why).unwrap();
    }
    assert_eq!(desk.aside(), 3);
    fs::create_dir(desk.dir().join("dir")).unwrap();
    for dir in desk.look().unwrap().dirs {
        desk.remove_dir(&dir).unwrap();
    }
    assert_eq!(fs::read_dir(desk.dir()).unwrap().count(), 0);
}

#[test]
fn no_more_than_a_thousand_are_set_aside() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    let link = |number: usize| {
        let path = desk.dir().join(format!("link-{number}"));
        symlink("nowhere", &path).unwrap();
        path
    };
    for number in 0..1_000 {
        desk.set_aside(&link(number), "it is a link").unwrap();
    }
    let beyond = link(1_000);
    let said = desk.set_aside(&beyond, "it is a link").unwrap_err().to_string();
    assert!(said.contains("holds 1000 already") && beyond.is_symlink(), "{said}");
    fs::remove_dir_all(desk.aside_dir()).unwrap();
    desk.set_aside(&beyond, "it is a link").unwrap();
    assert_eq!(desk.aside(), 1);
}

#[test]
fn put_that_its_owner_has_removed_is_gone() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    assert!(matches!(desk.read(&own(1)), Err(Fault::Gone)));
    desk.done(&own(1)).unwrap();
}

#[test]
fn put_that_fails_after_its_mark_stays_and_is_in_doubt() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    let spool = Spool { dir: File::open(desk.dir()).unwrap().into(), path: desk.dir().into(), owner: 0 };
    for (fails, stays) in [(0, false), (1, true)] {
        let syncs = std::cell::Cell::new(0);
        let sync = |_: &File| match syncs.replace(syncs.get() + 1) {
            number if number == fails => Err(std::io::Error::other("no sync")),
            _ => Ok(()),
        };
        let not_left = spool.leave_with(Vec::new(), sync).unwrap_err();
        assert_eq!((not_left.in_doubt, desk.look().unwrap().puts.len() == 1), (stays, stays));
    }
}
