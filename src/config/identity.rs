//! The users of pools' processes.

use std::ffi::CString;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use super::wrong::Wrong;
use super::{Error, Fault, Surroundings};
use model::Identity;

/// A user in the machine's database.
struct Account {
    uid: u32,
    /// None = the machine does not know the user.
    gid: Option<u32>,
    name: String,
    home: PathBuf,
}

/// The kernel takes this number for "leave it as it is": setresuid would change nothing, and jobs would run as root.
const NO_CHANGE: u32 = u32::MAX;

/// Numbers of capabilities, from capabilities(7).
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;

/// A group whose members may use the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketGroup {
    /// The name in the settings.
    pub name: String,
    /// The group's number.
    pub gid: u32,
}

/// The group that the settings name.
pub(super) fn socket_group(word: &str) -> Result<SocketGroup, Error> {
    let found = number_of_group(word).and_then(|gid| is_somebody("group", Some(gid)).map(|()| gid));
    let gid = found.map_err(|wrong| {
        let hint = "groupadd makes one, and usermod -aG adds a user to it";
        Error::new(Fault::Config, format!("socket_group: {wrong}")).hint(hint)
    })?;
    Ok(SocketGroup { name: word.to_owned(), gid })
}

/// The user and group of these settings; None = those of the supervisor.
pub(super) fn identity(
    user: Option<&str>,
    group: Option<&str>,
    around: &Surroundings,
) -> Result<Option<Identity>, Wrong> {
    if user.is_none() && group.is_none() {
        return Ok(None);
    }
    let account = match user {
        Some(word) => account(word)?,
        // A group alone: the user stays.
        None => account(&around.uid.to_string())?,
    };
    let gid = match group {
        Some(word) => Some(number_of_group(word)?),
        None => account.gid,
    };
    is_somebody("user", Some(account.uid))?;
    is_somebody("group", gid)?;
    // Nothing changes: so it needs no right, and the supervisor's other groups stay.
    if account.uid == around.uid && (group.is_none() || gid == Some(around.gid)) {
        return Ok(None);
    }
    let Some(gid) = gid else {
        let message = format!("this machine knows no user {}, and so not its group", account.name);
        return Err(Wrong::new("user", message).hint("set group"));
    };
    if around.uid != 0 {
        let (key, word) = user.map_or(("group", group), |word| ("user", Some(word)));
        let message = format!("only root may run workers as {key} '{}'", word.unwrap_or_default());
        return Err(Wrong::new(key, message).fault(Fault::Permission).hint("start taskvisor as root"));
    }
    may_be(&account, user.map_or("group", |_| "user"), around)?;
    let groups = other_groups(&account, gid)?;
    groups.iter().try_for_each(|group| is_somebody("user", Some(*group)))?;
    Ok(Some(Identity { uid: account.uid, gid, groups, name: account.name, home: account.home }))
}

/// Refuses a user that root may not become here, or whose processes it could not end.
fn may_be(account: &Account, key: &'static str, around: &Surroundings) -> Result<(), Wrong> {
    let other = account.uid != around.uid;
    let needs = [
        ("CAP_SETGID", SETGID, true, "take the groups of"),
        ("CAP_SETUID", SETUID, other, "become"),
        ("CAP_KILL", KILL, other, "end the processes of"),
    ];
    let lacking = needs.into_iter().find(|(_, number, needed, _)| *needed && around.lacks(*number));
    let Some((name, _, _, what)) = lacking else { return Ok(()) };
    let message = format!("taskvisor may not {what} the user '{}' here: it has no {name}", account.name);
    let hint = format!("grant it: docker run --cap-add, or CapabilityBoundingSet= in a unit, with {name}");
    Err(Wrong::new(key, message).fault(Fault::Permission).hint(hint))
}

fn is_somebody(key: &'static str, number: Option<u32>) -> Result<(), Wrong> {
    match number {
        Some(NO_CHANGE) => {
            let message =
                format!("{NO_CHANGE} is nobody's number: the kernel would leave the {key} as it is");
            Err(Wrong::new(key, message).hint("name an account of this machine, or another number"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Looks for a name before a number, as is usual.
fn account(word: &str) -> Result<Account, Wrong> {
    let failed = |error: Errno| Wrong::new("user", format!("failed to look up the user '{word}': {error}"));
    let number = word.parse::<u32>().ok();
    let found = match (User::from_name(word).map_err(failed)?, number) {
        (None, Some(uid)) => User::from_uid(Uid::from_raw(uid)).map_err(failed)?,
        (found, _) => found,
    };
    match (found, number) {
        (Some(user), _) => Ok(Account {
            uid: user.uid.as_raw(),
            gid: Some(user.gid.as_raw()),
            name: user.name,
            home: user.dir,
        }),
        (None, Some(uid)) => Ok(Account { uid, gid: None, name: word.into(), home: "/".into() }),
        (None, None) => Err(Wrong::new("user", format!("this machine knows no user '{word}'"))),
    }
}

fn number_of_group(word: &str) -> Result<u32, Wrong> {
    let failed = |error: Errno| Wrong::new("group", format!("failed to look up the group '{word}': {error}"));
    match (Group::from_name(word).map_err(failed)?, word.parse()) {
        (Some(group), _) => Ok(group.gid.as_raw()),
        (None, Ok(gid)) => Ok(gid),
        (None, Err(_)) => Err(Wrong::new("group", format!("this machine knows no group '{word}'"))),
    }
}

fn other_groups(account: &Account, gid: u32) -> Result<Vec<u32>, Wrong> {
    // Groups list their members by name, and this user is a number alone.
    if account.gid.is_none() {
        return Ok(Vec::new());
    }
    let failed = |why: String| {
        Wrong::new("user", format!("failed to look up the groups of '{}': {why}", account.name))
    };
    let name = CString::new(account.name.as_str()).map_err(|error| failed(error.to_string()))?;
    let groups = getgrouplist(&name, Gid::from_raw(gid)).map_err(|error| failed(error.to_string()))?;
    // getgrouplist gives this group as well.
    Ok(groups.into_iter().map(Gid::as_raw).filter(|other| *other != gid).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: Option<&str>, group: Option<&str>, uid: u32) -> Result<Option<Identity>, String> {
        let around = Surroundings { uid, gid: uid, ..Surroundings::default() };
        identity(user, group, &around).map_err(|wrong| wrong.to_string())
    }

    fn daemon() -> User {
        User::from_name("daemon").unwrap().expect("every machine has a daemon")
    }

    #[test]
    fn root_may_become_anybody_by_name_or_number() {
        let known = daemon();
        let daemon = of(Some("daemon"), None, 0).unwrap().unwrap();
        assert_eq!((daemon.uid, daemon.gid), (known.uid.as_raw(), known.gid.as_raw()));
        assert_eq!((daemon.name.as_str(), &daemon.home), ("daemon", &known.dir));
        assert_eq!(of(Some(&daemon.uid.to_string()), None, 0).unwrap().unwrap(), daemon);
        let both = of(Some("daemon"), Some("0"), 0).unwrap().unwrap();
        assert_eq!((both.uid, both.gid), (daemon.uid, 0));
        let stranger = of(Some("4242"), Some("4243"), 0).unwrap().unwrap();
        assert_eq!((stranger.uid, stranger.gid, stranger.home), (4242, 4243, "/".into()));
    }

    #[test]
    fn running_as_oneself_needs_no_change_of_user() {
        for (user, group, uid) in [
            (None, None, 7),
            (Some("1"), None, 1),
            (Some("daemon"), Some("daemon"), 1),
            (Some("root"), None, 0),
        ] {
            assert_eq!(of(user, group, uid), Ok(None));
        }
    }

    #[test]
    fn root_without_the_capability_to_start_or_to_end_them_is_refused_its_users() {
        let lacking = |number: u32, user, group| {
            let around = Surroundings { lacks: 1 << number, ..Surroundings::default() };
            identity(user, group, &around).map_err(|wrong| wrong.to_string())
        };
        for (number, words) in [
            (KILL, "may not end the processes of the user 'daemon' here: it has no CAP_KILL"),
            (SETUID, "may not become the user 'daemon' here: it has no CAP_SETUID"),
            (SETGID, "may not take the groups of the user 'daemon' here: it has no CAP_SETGID"),
        ] {
            let error = lacking(number, Some("daemon"), None).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(lacking(KILL, None, Some("daemon")).is_ok(), "its processes stay root's");
        assert!(lacking(8, Some("daemon"), None).is_ok());
        assert_eq!(lacking(KILL, Some("root"), None), Ok(None));
    }

    #[test]
    fn impossible_users_and_groups_are_refused_with_the_reason() {
        for (user, group, uid, words) in [
            (Some("daemon"), None, 7, "only root may run workers as user 'daemon'"),
            (None, Some("daemon"), 7, "only root may run workers as group 'daemon'"),
            (Some("nosuch"), None, 0, "knows no user 'nosuch'"),
            (None, Some("nosuch"), 0, "knows no group 'nosuch'"),
            (Some("4242"), None, 0, "knows no user 4242, and so not its group"),
            (Some("4294967295"), None, 0, "4294967295 is nobody's number"),
            (Some("4294967295"), Some("4294967295"), 7, "4294967295 is nobody's number"),
            (Some("daemon"), Some("4294967295"), 0, "would leave the group as it is"),
            (None, Some("4294967295"), 0, "would leave the group as it is"),
        ] {
            let error = of(user, group, uid).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
