//! The order to a parked child, on the child's own socket: the program to become.
//!
//! One message: a length (u32, little-endian, of what follows) and the program. If the program gets a stdin, its
//! descriptor travels with the first byte. The child answers with a mark before it executes a program that is not a
//! worker, and when it fails: see [`Said`].

use super::fields::Fields;
use model::ProcessLimits;

/// Longest order that a parked child reads, in bytes: above the kernel's own limit for arguments and environment.
pub const PROGRAM_MAX: usize = 16 << 20;

/// A program to become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments. A program without a slash is looked up in `PATH` of `env`.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Working directory of the program.
    pub cwd: Vec<u8>,
    /// File mode creation mask.
    pub umask: u32,
    /// Whether a descriptor for stdin comes with the order; else stdin is /dev/null.
    pub stdin: bool,
    /// Whether the program speaks the worker protocol: then it gets the socket as descriptor 3.
    pub speaks: bool,
    /// The user of the program; None for the keeper's own.
    pub identity: Option<Identity>,
    /// Limits and priorities with which it starts.
    pub process_limits: ProcessLimits,
}

/// A user as the kernel knows one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub uid: u32,
    /// The user's first group.
    pub gid: u32,
    /// All other groups.
    pub groups: Vec<u32>,
}

/// Why a parked child could not become the program. It then exits with 127 (not found) or 126.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The step that failed.
    pub step: Step,
    /// The system's error number.
    pub errno: i32,
}

/// What a parked child has said by its end. Its marks, if any, come before a [`Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing, or that it waits to try again: the program has never begun.
    Nothing,
    /// The program was executed, as far as anybody knows.
    Begun,
    /// It could not become the program.
    Failed(Failed),
}

/// Said right before a program is executed.
pub const BEGINS: u8 = 0xff;

/// Said when that has failed and is to be tried again.
pub const WAITS: u8 = 0xfe;

impl Said {
    /// Reads all that a child without a worker's channel has said.
    pub fn decode(bytes: &[u8]) -> Said {
        let marks = bytes.iter().take_while(|&&byte| byte == BEGINS || byte == WAITS).count();
        let (marks, rest) = bytes.split_at(marks);
        match (Failed::decode(rest).filter(|_| rest.len() == 8), marks.last()) {
            (Some(failed), _) => Said::Failed(failed),
            (None, None | Some(&WAITS)) if rest.is_empty() => Said::Nothing,
            // Nobody knows what this is: the program may have run.
            (None, _) => Said::Begun,
        }
    }
}

/// The steps from parked child to program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading or understanding the order.
    Order,
    /// Changing to the working directory.
    Chdir,
    /// Setting up descriptors.
    Descriptors,
    /// Running the program by `execve`.
    Exec,
    /// Becoming the user.
    Identity,
    /// Setting the limit on open files.
    OpenFiles,
    /// Setting the niceness.
    Nice,
    /// Setting the score for the out-of-memory killer.
    OomScore,
    /// Making the process.
    Fork,
}

impl Step {
    /// All steps, in the order of their numbers in messages.
    pub const ALL: [Step; 9] = [
        Step::Order,
        Step::Chdir,
        Step::Descriptors,
        Step::Exec,
        Step::Identity,
        Step::OpenFiles,
        Step::Nice,
        Step::OomScore,
        Step::Fork,
    ];

    /// For messages: "failed to …".
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Order => "read its order",
            Step::Chdir => "change to its working directory",
            Step::Descriptors => "set up its descriptors",
            Step::Exec => "execute",
            Step::Identity => "become the user of",
            Step::OpenFiles => "set limits.open_files of",
            Step::Nice => "set limits.nice of",
            Step::OomScore => "set limits.oom_score_adj of",
            Step::Fork => "make a process for",
        }
    }
}

impl Program {
    /// The whole message, length first.
    pub fn encode(&self) -> Vec<u8> {
        // Room for the length, which is known only at the end.
        let mut message = vec![0; 4];
        message.push(u8::from(self.stdin));
        message.push(u8::from(self.speaks));
        message.extend_from_slice(&self.umask.to_le_bytes());
        put(&mut message, &self.cwd);
        put_list(&mut message, &self.argv);
        put_list(&mut message, &self.env);
        put_identity(&mut message, self.identity.as_ref());
        put_limits(&mut message, self.process_limits);
        let len = (message.len() - 4) as u32;
        message[..4].copy_from_slice(&len.to_le_bytes());
        message
    }

    /// Reads what follows the length.
    pub fn decode(message: &[u8]) -> Option<Program> {
        let mut fields = Fields(message);
        let (stdin, speaks, umask) = (fields.u8()? != 0, fields.u8()? != 0, fields.u32()?);
        let cwd = get(&mut fields)?;
        let argv = get_list(&mut fields)?;
        let env = get_list(&mut fields)?;
        let identity = get_identity(&mut fields)?;
        let process_limits = get_means(&mut fields)?;
        Some(Program { argv, env, cwd, umask, stdin, speaks, identity, process_limits })
    }
}

impl Failed {
    /// The exit code of the process that failed so.
    pub fn exit_code(self) -> i32 {
        if self.step == Step::Exec && self.errno == libc::ENOENT { 127 } else { 126 }
    }

    /// The failure as the eight bytes that go through the pipe.
    pub fn encode(self) -> [u8; 8] {
        let mut message = [0; 8];
        message[0] = self.step as u8;
        // Behind three bytes of padding the number stands aligned.
        message[4..].copy_from_slice(&self.errno.to_le_bytes());
        message
    }

    /// The inverse; None for anything else.
    pub fn decode(message: &[u8]) -> Option<Failed> {
        let mut fields = Fields(message);
        let step = *Step::ALL.get(usize::from(fields.u8()?))?;
        // The padding of `encode`.
        fields.take::<3>()?;
        Some(Failed { step, errno: fields.i32()? })
    }
}

fn put(message: &mut Vec<u8>, bytes: &[u8]) {
    message.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    message.extend_from_slice(bytes);
}

fn put_list(message: &mut Vec<u8>, list: &[Vec<u8>]) {
    message.extend_from_slice(&(list.len() as u32).to_le_bytes());
    list.iter().for_each(|bytes| put(message, bytes));
}

/// Writes the number of the numbers that follow, then uid, gid and groups; 0 for no identity.
fn put_identity(message: &mut Vec<u8>, identity: Option<&Identity>) {
    let numbers =
        identity.iter().flat_map(|id| [id.uid, id.gid].into_iter().chain(id.groups.iter().copied()));
    let numbers: Vec<u32> = numbers.collect();
    message.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| message.extend_from_slice(&number.to_le_bytes()));
}

fn get_identity(fields: &mut Fields<'_>) -> Option<Option<Identity>> {
    match fields.u32()? {
        0 => Some(None),
        count => {
            let (uid, gid) = (fields.u32()?, fields.u32()?);
            let groups = (2..count).map(|_| fields.u32()).collect::<Option<_>>()?;
            // A count of 1 would be a uid without a gid.
            (count >= 2).then_some(Some(Identity { uid, gid, groups }))
        }
    }
}

/// Values that stand for "not set": no real value equals them.
const UNSAID: (u64, i32) = (u64::MAX, i32::MIN);

fn put_limits(message: &mut Vec<u8>, process_limits: ProcessLimits) {
    message.extend_from_slice(&process_limits.open_files.unwrap_or(UNSAID.0).to_le_bytes());
    message.extend_from_slice(&process_limits.nice.unwrap_or(UNSAID.1).to_le_bytes());
    message.extend_from_slice(&process_limits.oom_score_adj.unwrap_or(UNSAID.1).to_le_bytes());
}

fn get_means(fields: &mut Fields<'_>) -> Option<ProcessLimits> {
    let (files, nice, score) = (fields.u64()?, fields.i32()?, fields.i32()?);
    let said = |number: i32| Some(number).filter(|number| *number != UNSAID.1);
    let open_files = Some(files).filter(|files| *files != UNSAID.0);
    Some(ProcessLimits { open_files, nice: said(nice), oom_score_adj: said(score) })
}

fn get(fields: &mut Fields<'_>) -> Option<Vec<u8>> {
    let len = fields.u32()?;
    Some(fields.slice(len as usize)?.to_vec())
}

fn get_list(fields: &mut Fields<'_>) -> Option<Vec<Vec<u8>>> {
    let len = fields.u32()?;
    (0..len).map(|_| get(fields)).collect()
}
