//! Whose fault it is that a program could not be started: the table of the system's errors by the step that failed.

use nix::errno::Errno;

use super::program::{Failed, Step};

/// Whose fault it is that a parked child could not become its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The job's: what it names cannot be run, now or later.
    Job,
    /// Passing: what the job names cannot be run for the moment, as it is being written, or its disk fails.
    Moment,
    /// The host's, or that of the pool's settings: any other job would fare the same here.
    Host,
}

/// What the job names by itself; the pool names the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByJob {
    /// The program, with its arguments.
    pub program: bool,
    /// The working directory.
    pub directory: bool,
    /// The arguments, beside an environment that is not too long by itself.
    pub length: bool,
}

impl Fault {
    /// Judges a failure before the program began.
    pub fn of(failed: Failed, by_job: ByJob) -> Fault {
        match failed.step {
            // The kernel counts arguments and environment together: the fault depends on which of them is
            // long.
            Step::Exec | Step::Order if failed.errno == libc::E2BIG => {
                if by_job.length {
                    Fault::Job
                } else {
                    Fault::Host
                }
            }
            Step::Exec if by_job.program => of_path(failed.errno),
            Step::Chdir if by_job.directory => of_path(failed.errno),
            // What the job does not name, the pool does: any other job would fare the same.
            Step::Exec | Step::Chdir | Step::Order => Fault::Host,
            Step::Descriptors
            | Step::Identity
            | Step::OpenFiles
            | Step::Nice
            | Step::OomScore
            | Step::Fork => Fault::Host,
        }
    }
}

/// Judges the failure to use a path that the job names.
fn of_path(errno: i32) -> Fault {
    match Errno::from_raw(errno) {
        // Before `passes`, which includes these: a host that lacks something fails every job.
        errno if is_want(errno) => Fault::Host,
        errno if passes(errno) => Fault::Moment,
        _ => Fault::Job,
    }
}

/// Whether an error says that the host has too little of something.
fn is_want(errno: Errno) -> bool {
    matches!(errno, Errno::EAGAIN | Errno::ENOMEM | Errno::ENFILE | Errno::EMFILE | Errno::ENOBUFS)
}

/// Whether the same call may succeed in a moment.
pub fn passes(errno: Errno) -> bool {
    let of_file = matches!(errno, Errno::ETXTBSY | Errno::EBUSY | Errno::ETIMEDOUT);
    // The disk, or a network or FUSE file system, fails or cannot be reached.
    let of_disk = matches!(
        errno,
        Errno::EIO
            | Errno::ESTALE
            | Errno::ENOTCONN
            | Errno::EREMOTEIO
            | Errno::EUCLEAN
            | Errno::EBADMSG
            | Errno::ENOKEY
            | Errno::ENODEV
            | Errno::ENXIO
    );
    let of_network =
        matches!(errno, Errno::ENETDOWN | Errno::ENETUNREACH | Errno::EHOSTDOWN | Errno::EHOSTUNREACH);
    of_file || of_disk || of_network || errno == Errno::EINTR || is_want(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(step: Step, errno: i32, by_job: ByJob) -> Fault {
        Fault::of(Failed { step, errno }, by_job)
    }

    #[test]
    fn every_error_of_what_the_pool_names_is_the_hosts() {
        for (step, errno) in Step::ALL.into_iter().flat_map(|step| (1..134).map(move |errno| (step, errno))) {
            assert_eq!(judged(step, errno, ByJob::default()), Fault::Host, "{step:?} {errno}");
        }
    }

    #[test]
    fn only_the_jobs_own_program_and_directory_can_be_its_fault() {
        let all = ByJob { program: true, directory: true, length: true };
        for (step, errno) in Step::ALL.into_iter().flat_map(|step| (1..134).map(move |errno| (step, errno))) {
            let is_own =
                matches!(step, Step::Exec | Step::Chdir) || (step, errno) == (Step::Order, libc::E2BIG);
            assert!(is_own || judged(step, errno, all) == Fault::Host, "{step:?} {errno}");
        }
        for errno in [libc::ENOENT, libc::EACCES, libc::ENOEXEC, libc::ENOTDIR, libc::ELOOP, libc::E2BIG] {
            assert_eq!(judged(Step::Exec, errno, all), Fault::Job, "{errno}");
            let elsewhere = ByJob { program: true, directory: false, length: true };
            assert_eq!(judged(Step::Chdir, errno, elsewhere), Fault::Host, "{errno}");
        }
        let long_pool = ByJob { length: false, ..all };
        assert_eq!(judged(Step::Exec, libc::E2BIG, long_pool), Fault::Host);
    }

    #[test]
    fn error_that_passes_is_never_the_jobs() {
        let all = ByJob { program: true, directory: true, length: true };
        for (errno, fault) in [
            (libc::ETXTBSY, Fault::Moment),
            (libc::EIO, Fault::Moment),
            (libc::ESTALE, Fault::Moment),
            (libc::ENOTCONN, Fault::Moment),
            (libc::EREMOTEIO, Fault::Moment),
            (libc::EUCLEAN, Fault::Moment),
            (libc::EBADMSG, Fault::Moment),
            (libc::ENOKEY, Fault::Moment),
            (libc::ENODEV, Fault::Moment),
            (libc::ENXIO, Fault::Moment),
            (libc::EAGAIN, Fault::Host),
            (libc::ENOMEM, Fault::Host),
            (libc::ENFILE, Fault::Host),
            (libc::EMFILE, Fault::Host),
        ] {
            assert_eq!(judged(Step::Exec, errno, all), fault, "{errno}");
            assert!(passes(Errno::from_raw(errno)), "{errno}");
        }
        for errno in [Errno::ENOENT, Errno::EACCES, Errno::ENOEXEC, Errno::EPERM, Errno::EINVAL] {
            assert!(!passes(errno), "{errno}");
        }
    }
}
