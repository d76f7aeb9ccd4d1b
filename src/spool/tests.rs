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
    std::fs::set_permissions(state.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert!(Desk::open(state.path(), None).unwrap().is_none());
    let own = nix::unistd::getegid().as_raw();
    let desk = Desk::open(state.path(), Some(own)).unwrap().unwrap();
    let mode = |dir: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(dir).unwrap()) & 0o7777
    };
    assert_eq!((mode(desk.dir()), mode(state.path())), (DIR_MODE, 0o711));
    assert!(Spool::find(state.path(), |_, _| true).is_none(), "it is our own");
    assert_eq!(mode(Desk::open(state.path(), None).unwrap().unwrap().dir()), 0o700);
}
