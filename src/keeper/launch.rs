//! How the keeper starts the supervisor's process.

use std::ffi::OsString;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::say::say;
use super::setup::Setup;
use super::{FD_VARIABLE, TAG_FOR_SUPERVISOR, TAG_VARIABLE, mark, priority, sys, traces};
use wire::fault::passes;

/// Descriptor of the socket in the supervisor.
const SOCKET: RawFd = 3;

/// Exit code of a supervisor that could not be executed for a reason that may pass.
const EXIT_WANT: i32 = 69;

/// The supervisor's command line, made once: after a crash there may be no memory for it.
pub(super) struct Launch {
    path: Vec<u8>,
    argv: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
}

impl Launch {
    pub(crate) fn new(setup: &Setup) -> std::io::Result<Self> {
        let text = |text: OsString| {
            let mut text = text.into_vec();
            text.push(0);
            text
        };
        let keeper = std::process::id() as i32;
        let own = [
            (FD_VARIABLE.into(), SOCKET.to_string().into()),
            (TAG_FOR_SUPERVISOR.into(), traces::tag(keeper)?.into()),
        ];
        let set = |name: &OsString| own.iter().chain(&setup.env).any(|(other, _)| other == name);
        let ours = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", TAG_VARIABLE];
        let kept = std::env::vars_os().filter(|(name, _)| !ours.iter().any(|own| name == own) && !set(name));
        let env = kept.chain(own.clone()).chain(setup.env.iter().cloned());
        let env = env.map(|(name, value)| text([name, value].join("=".as_ref()))).collect();
        let argv: Vec<Vec<u8>> = setup.supervisor.iter().cloned().map(text).collect();
        Ok(Launch { path: argv.first().cloned().unwrap_or_default(), argv, env })
    }

    /// First steps of the supervisor's process. It gets its own session, so that a Ctrl-C reaches only one of the two.
    /// It keeps the inherited descriptors, such as locks. It sets no PDEATHSIG, since it sweeps when the keeper is
    /// gone.
    pub(crate) fn become_supervisor(&self, socket: RawFd) -> ! {
        _ = nix::unistd::setsid();
        priority::raise_session();
        sys::unblock_all();
        mark::take_off();
        if let Err(errno) = sys::place(socket, SOCKET, 0) {
            say(format_args!("failed to hand the supervisor its socket: {errno}"));
            sys::exit_now(126);
        }
        let errno = sys::exec(&self.path, &self.argv, &self.env);
        let path = String::from_utf8_lossy(&self.path[..self.path.len().saturating_sub(1)]);
        say(format_args!("failed to execute {path}: {errno}"));
        sys::exit_now(if passes(errno) { EXIT_WANT } else { 127 });
    }
}

/// Opens /dev/null on those of 0 to 2 that are closed, and once more for the children.
pub(super) fn fill_standard_descriptors() -> nix::Result<RawFd> {
    loop {
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?.into_raw_fd();
        if null > 2 {
            return Ok(null);
        }
        sys::place(null, null, 0)?;
    }
}
