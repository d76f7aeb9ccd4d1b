//! The exit codes of every command.

/// The command succeeded.
pub const OK: u8 = 0;
/// The command failed, or a job that it waited for did not complete.
pub const FAILED: u8 = 1;
/// The command line was typed wrongly.
pub const USAGE: u8 = 2;
/// No supervisor runs.
pub const NOT_RUNNING: u8 = 3;
/// `status -q`: a part of it does not work.
pub const DEGRADED: u8 = 5;
/// `status -q`: nothing works.
pub const UNHEALTHY: u8 = 6;
/// No such job, queue or recurring job.
pub const NOTHING_MATCHED: u8 = 7;
/// This kind of broker cannot do it; the message says what to do instead.
pub const UNSUPPORTED: u8 = 8;
/// The store or the directories are in use or cannot be reached, or the store did not take all before the end
/// (EX_UNAVAILABLE).
pub const UNAVAILABLE: u8 = 69;
/// `start`: an error of the program itself (EX_SOFTWARE).
pub const SOFTWARE: u8 = 70;
/// An error of the machine (EX_IOERR).
pub const IO: u8 = 74;
/// Not permitted (EX_NOPERM).
pub const PERMISSION: u8 = 77;
/// The settings are wrong (EX_CONFIG).
pub const CONFIG: u8 = 78;
/// The wait timed out.
pub const TIMED_OUT: u8 = 124;

/// The same for people, below `--help`.
pub const HELP: &str = "\
Exit codes:
  0 done   1 failed   2 usage   3 not running   5 degraded, 6 unhealthy (status -q)
  7 nothing matched   8 the broker cannot do it   69 unavailable   70 own error
  74 input/output   77 not permitted   78 wrong settings   124 the wait timed out

Data goes to stdout, words about it to stderr. taskvisor alone prints this help, with code 2. NO_COLOR turns colour off.";
