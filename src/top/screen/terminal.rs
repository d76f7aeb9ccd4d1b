//! The modes of the terminal, which it gets back whatever becomes of this process.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use failure::{Failure, exit};
use nix::sys::signal::{Signal, raise};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc::{Receiver, channel};

/// The other screen, no cursor, pasted text marked as such, and letters stay in their order: some terminals would turn
/// lines around in which one reads from right to left.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[8l";
/// The same back.
const CLOSE: &str = "\x1b[0m\x1b[8h\x1b[?2004l\x1b[?25h\x1b[?1049l";

/// How the terminal was before, while this process has changed it. A panic on any thread needs it.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    modes: Termios,
    /// What was written to stderr before: meanwhile that goes nowhere, as it would stand in the picture.
    stderr: Option<OwnedFd>,
}

/// The terminal, drawn on by this process alone until this is dropped.
pub struct Terminal {
    /// Bytes of keys, as they are typed; closed when the terminal is gone.
    pub typed: Receiver<Vec<u8>>,
}

impl Terminal {
    /// Takes the terminal of stdin and stdout. After a panic it is as before, too.
    pub fn open() -> Result<Terminal, Failure> {
        let is_terminal = |fd: &dyn io::IsTerminal| fd.is_terminal();
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        if !is_terminal(&io::stdin()) || !is_terminal(&io::stdout()) || is_dumb {
            let message = "top draws on a terminal, and reads its keys: here is none that can do so";
            return Err(Failure::new(exit::USAGE, message)
                .hint("taskvisor status prints the same once; by ssh: ssh -t HOST taskvisor top"));
        }
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            told(panic);
            // A task that panics would leave the rest running, without a screen.
            std::process::exit(exit::SOFTWARE.into());
        }));
        change().map_err(|error| Failure::from(error).of("failed to change the modes of the terminal"))?;
        Ok(Terminal { typed: keys() })
    }

    /// Writes to it.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Its columns and lines.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            // A serial line does not know.
            Ok(_) | Err(_) => (80, 24),
        }
    }

    /// Stops this process, as Ctrl-Z is meant, and comes back with the modes.
    pub fn stop(&self) -> io::Result<()> {
        restore();
        // Not SIGTSTP, which is handled here.
        raise(Signal::SIGSTOP)?;
        change()
    }

    /// The modes again, which another program may have changed while this one was stopped.
    pub fn again(&self) -> io::Result<()> {
        // First: else the changed modes would count as those before.
        restore();
        change()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Each key comes at once, unseen; Ctrl-C and Ctrl-Z stay signals.
fn change() -> io::Result<()> {
    let before = tcgetattr(io::stdin())?;
    let mut modes = before.clone();
    // With IEXTEN the driver would keep Ctrl-V and Ctrl-O to itself (termios(3)).
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
    // A read returns as soon as there is a byte.
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    let stderr = if io::IsTerminal::is_terminal(&io::stderr()) { Some(silence()?) } else { None };
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before { modes: before, stderr });
    tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
    let mut out = io::stdout().lock();
    out.write_all(OPEN.as_bytes())?;
    out.flush()
}

/// Sends stderr nowhere; gives where it went.
fn silence() -> io::Result<OwnedFd> {
    let before = io::stderr().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stderr(std::fs::OpenOptions::new().write(true).open("/dev/null")?)?;
    Ok(before)
}

/// Gives the terminal back, once.
fn restore() {
    let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let mut out = io::stdout().lock();
    out.write_all(CLOSE.as_bytes()).and_then(|()| out.flush()).ok();
    tcsetattr(io::stdin(), OptionalActions::Now, &before.modes).ok();
    if let Some(stderr) = before.stderr {
        nix::unistd::dup2_stderr(stderr).ok();
    }
}

/// Reads keys on a thread, which ends with this process: stdin is shared with the shell, so it stays blocking.
fn keys() -> Receiver<Vec<u8>> {
    let (typed, keys) = channel(64);
    std::thread::spawn(move || {
        let mut bytes = [0; 256];
        loop {
            match io::stdin().lock().read(&mut bytes) {
                Ok(read @ 1..) if typed.blocking_send(bytes[..read].to_vec()).is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    });
    keys
}
