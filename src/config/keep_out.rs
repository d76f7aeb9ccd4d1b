//! Users of pools are kept from moving the supervisor's own directories in a volume of a container.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::volume::{is_containers_own, is_unmapped, loose, set_sticky};
use super::{Config, Error, Fault, Surroundings};
use model::Identity;

/// Makes sure that no user of a pool can take a directory of the supervisor away: sets the sticky bit of each volume in
/// which one could, or refuses.
pub fn keep_users_out(config: &Config) -> Result<(), Error> {
    keep_out(config, is_containers_own, set_sticky)
}

/// Refuses what [`keep_users_out`] would refuse, and changes nothing.
pub(super) fn could_keep_users_out(config: &Config) -> Result<(), Error> {
    let around = Surroundings::of_process();
    keep_out(config, is_containers_own, |_, found| match may_set_mode(found.uid(), &around) {
        true => Ok(()),
        false => Err(Errno::EPERM.into()),
    })
}

/// The number of the capability by which chmod(2) takes files of other owners, from capabilities(7).
const FOWNER: u32 = 3;

/// Whether chmod(2) lets this process set the mode of a file of this owner.
fn may_set_mode(owner: u32, around: &Surroundings) -> bool {
    // The capability counts only for owners who have a number in this user namespace.
    owner == around.uid || (!around.lacks(FOWNER) && !is_unmapped(owner))
}

fn keep_out(
    config: &Config,
    is_own: impl Fn(&Path) -> bool,
    close: impl Fn(&Path, &Metadata) -> io::Result<()>,
) -> Result<(), Error> {
    let own = geteuid().as_raw();
    let users = config.specs.iter().filter_map(|spec| spec.identity.as_ref());
    // A job that runs as the supervisor can reach its directories in any case.
    let users: Vec<&Identity> = users.filter(|user| user.uid != own).collect();
    if users.is_empty() {
        return Ok(());
    }
    for dir in [&config.run_dir, &config.state_dir].into_iter().chain(&config.log.dir) {
        for (volume, found) in loose(dir, &is_own) {
            let Some(user) = users.iter().find(|user| may_write(user, &found)) else { continue };
            close(&volume, &found).map_err(|error| not_kept_from(user, dir, &volume, &error))?;
        }
    }
    Ok(())
}

fn not_kept_from(user: &Identity, dir: &Path, volume: &Path, error: &io::Error) -> Error {
    let (name, dir, volume) = (&user.name, dir.display(), volume.display());
    let what = format!(
        "{dir} cannot be kept from the user '{name}' of a pool, who may rename it in the volume {volume}: failed to set the \
         sticky bit of {volume}: {error}"
    );
    Error::new(Fault::Permission, what).hint(format!(
        "chmod +t {volume} as its owner, mount it for another group (fsGroup), give a directory of its own (--state-dir, \
         --run-dir, log.dir), or leave user out"
    ))
}

fn may_write(user: &Identity, found: &Metadata) -> bool {
    let of_group = found.gid() == user.gid || user.groups.contains(&found.gid());
    found.mode() & 0o002 != 0 || (found.mode() & 0o020 != 0 && of_group)
}

#[cfg(test)]
mod tests {
    use super::super::{File, Flags, resolve};
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    /// Settings with a pool of this user, and with all directories below a volume of this mode.
    fn below(volume: &Path, mode: u32, user: u32, group: u32) -> Config {
        fs::set_permissions(volume, Permissions::from_mode(mode)).unwrap();
        let around = Surroundings { uid: 0, home: Some("/".into()), ..Surroundings::default() };
        let whole = File {
            state_dir: Some(volume.join("state")),
            run_dir: Some(volume.join("run")),
            ..File::default()
        };
        let flags = Flags { whole, ..Flags::default() };
        let mut config = resolve(flags, &around).unwrap();
        config.specs[0].identity = Some(Identity {
            uid: user,
            gid: group,
            groups: Vec::new(),
            name: "job".into(),
            home: "/".into(),
        });
        config
    }

    #[test]
    fn a_volume_is_closed_to_the_users_of_pools() {
        let dir = tempfile::tempdir().unwrap();
        let volume = fs::canonicalize(dir.path()).unwrap();
        let (own, gid) = (geteuid().as_raw(), fs::metadata(&volume).unwrap().gid());
        let is_own = |path: &Path| path == volume;
        // Who may not write there is none to fear.
        for (mode, user, group, closed) in [
            (0o777, own + 1, gid + 1, 0o1777),
            (0o775, own + 1, gid, 0o1775),
            (0o775, own + 1, gid + 1, 0o775),
            (0o777, own, gid, 0o777),
            (0o755, own + 1, gid, 0o755),
        ] {
            keep_out(&below(&volume, mode, user, group), is_own, set_sticky).unwrap();
            assert_eq!(fs::metadata(&volume).unwrap().mode() & 0o7777, closed, "{mode:o} {user} {group}");
        }
    }

    #[test]
    fn mode_of_a_file_of_another_owner_can_be_set_with_the_capability() {
        let root = Surroundings { uid: 0, ..Surroundings::default() };
        let bare = Surroundings { lacks: 1 << FOWNER, ..root.clone() };
        let person = Surroundings { uid: 1000, lacks: u64::MAX, ..Surroundings::default() };
        assert_eq!([0, 1000].map(|owner| may_set_mode(owner, &root)), [true, true]);
        assert_eq!([0, 1000].map(|owner| may_set_mode(owner, &bare)), [true, false]);
        assert_eq!([0, 1000].map(|owner| may_set_mode(owner, &person)), [false, true]);
    }

    #[test]
    fn a_volume_that_cannot_be_closed_is_refused_if_a_pool_has_a_user() {
        let dir = tempfile::tempdir().unwrap();
        let volume = fs::canonicalize(dir.path()).unwrap();
        let (own, gid) = (geteuid().as_raw(), fs::metadata(&volume).unwrap().gid());
        let refused = |mode, user| {
            let config = below(&volume, mode, user, gid + 1);
            keep_out(&config, |path| path == volume, |_, _| Err(Errno::EPERM.into()))
        };
        let error = refused(0o777, own + 1).unwrap_err();
        assert!(error.message.contains("cannot be kept from the user 'job'"), "{error}");
        assert!(error.hint.unwrap().contains("chmod +t"));
        assert_eq!((refused(0o1777, own + 1), refused(0o777, own)), (Ok(()), Ok(())));
    }
}
