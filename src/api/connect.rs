//! How a client connects, and which listeners it refuses.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::Place;
use super::client_error::Error;

/// The stream between client and supervisor.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

/// Refuses a listener that belongs to another user: anyone may have made a socket in /tmp first. They would get jobs
/// and data, and could answer as they like. root also trusts the owner of the directory, as root may look at that
/// user's supervisor. Others trust the owner if root has given the directory to that user, as systemd does below /run.
fn trust(place: &Place, path: &Path, stream: &UnixStream) -> Result<(), Error> {
    let failed = |error| Error::Connect(place.clone(), error);
    let (own, theirs) = (nix::unistd::geteuid().as_raw(), stream.peer_cred().map_err(failed)?.uid());
    let is_owner = |dir: &Path| dir.symlink_metadata().is_ok_and(|found| found.uid() == theirs);
    let may_own = |dir: &Path| is_owner(dir) && trusts(dir, theirs);
    match own == theirs || theirs == 0 || path.parent().is_some_and(may_own) {
        true => Ok(()),
        false => Err(Error::Stranger(place.clone(), theirs)),
    }
}

/// Whether this user may be told of jobs by the owner of a directory, who is another.
pub fn trusts(dir: &Path, owner: u32) -> bool {
    owner == 0 || nix::unistd::geteuid().is_root() || is_given_by_root(dir)
}

/// Whether only root can have put this directory where it is, and only its owner can change its content.
fn is_given_by_root(dir: &Path) -> bool {
    let is_roots = |parent: &Path| {
        let found = parent.symlink_metadata();
        // The mode of a link says nothing: who may replace it depends on its directory.
        found.is_ok_and(|found| found.uid() == 0 && (found.is_symlink() || found.mode() & 0o022 == 0))
    };
    let is_closed = dir.symlink_metadata().is_ok_and(|found| found.is_dir() && found.mode() & 0o022 == 0);
    let Ok(real) = dir.canonicalize() else { return false };
    // As written and as resolved: a link of somebody else on the way could be turned elsewhere.
    is_closed && dir.is_absolute() && dir.ancestors().chain(real.ancestors().skip(1)).skip(1).all(is_roots)
}

pub(super) async fn connect(place: &Place) -> Result<Box<dyn Wire>, Error> {
    let connected: io::Result<Box<dyn Wire>> = match place {
        Place::Socket(path) => match UnixStream::connect(path).await {
            Ok(stream) => {
                trust(place, path, &stream)?;
                Ok(Box::new(stream) as _)
            }
            Err(error) => Err(error),
        },
        Place::Port { host, .. } => TcpStream::connect(host).await.map(|stream| {
            // A request is written in one piece, so waiting for more gains nothing.
            stream.set_nodelay(true).ok();
            Box::new(stream) as _
        }),
    };
    connected.map_err(|error| {
        let is = |kinds: &[ErrorKind]| kinds.contains(&error.kind());
        // A reset: the supervisor ended with the connection still in its queue, so it has read nothing of it.
        if is(&[ErrorKind::NotFound, ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset]) {
            return Error::NotRunning(place.clone());
        }
        // Linux says this where the queue of a Unix socket is full.
        if is(&[ErrorKind::WouldBlock]) {
            let crowd = "too many clients wait for it to take their connections";
            return Error::Silent(place.clone(), crowd.into());
        }
        Error::Connect(place.clone(), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_trusted_only_below_directories_of_root() {
        assert!(is_given_by_root(Path::new("/usr/bin")));
        let own = tempfile::tempdir().unwrap();
        assert!(!is_given_by_root(own.path()), "anybody can make one in /tmp");
        assert!(!is_given_by_root(Path::new("usr/bin")) && !is_given_by_root(Path::new("/nowhere")));
        let link = own.path().join("bin");
        std::os::unix::fs::symlink("/usr/bin", &link).unwrap();
        assert!(!is_given_by_root(&link), "a link of anybody");
    }
}
