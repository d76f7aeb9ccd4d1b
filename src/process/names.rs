//! The names of a job that its program finds in its environment. Other clients of a broker choose them freely, and the
//! kernel refuses some: that is the job's fault, and not that of the pool, whose program would be refused, too.

use nix::sys::resource::{Resource, getrlimit};

use super::page::page_size;
use model::Failure;

/// What execve(2) takes as arguments and environment, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// One string, with its NUL.
    each: usize,
    /// All strings and the pointers to them.
    all: usize,
}

/// Part of the room that is left free: for the path of the program, and for what a `#!` adds.
const SPARE: usize = 8 << 10;

impl Room {
    /// The room of programs started here: a quarter of the stack's limit, from 128 KiB to 6 MiB.
    pub(super) fn here() -> Room {
        let stack = getrlimit(Resource::RLIMIT_STACK).map_or(u64::MAX, |(soft, _)| soft);
        let quarter = usize::try_from(stack / 4).unwrap_or(usize::MAX);
        // MAX_ARG_STRLEN of the kernel is 32 pages.
        Room { each: 32 * page_size() as usize, all: quarter.clamp(128 << 10, 6 << 20) }
    }

    /// Whether these strings fit.
    pub(super) fn fits<'a>(&self, strings: impl Iterator<Item = &'a Vec<u8>>) -> bool {
        self.left(strings).is_some()
    }

    /// What these strings leave.
    fn left<'a>(&self, strings: impl Iterator<Item = &'a Vec<u8>>) -> Option<usize> {
        let mut left = self.all.checked_sub(SPARE)?;
        for text in strings {
            if text.len() >= self.each {
                return None;
            }
            left = left.checked_sub(cost(text.len()))?;
        }
        Some(left)
    }

    /// Why the kernel refuses these variables of a job beside the strings of its pool, if it does for what they hold. Each
    /// comes with what people call it.
    pub(super) fn refuses<'a>(
        &self,
        names: &[(&str, Vec<u8>)],
        pool: impl Iterator<Item = &'a Vec<u8>>,
    ) -> Option<Failure> {
        let failure = |group: &str, message| Some(Failure { group: group.into(), message, trace: None });
        for (what, text) in names {
            if text.contains(&0) {
                let message =
                    format!("its {what} has a NUL byte, which no program can find in its environment");
                return failure("NUL byte", message);
            }
            if text.len() >= self.each {
                let message = format!(
                    "its {what} is too long: a variable of a program's environment may have {} bytes, this has {}",
                    self.each - 1,
                    text.len()
                );
                return failure("too long", message);
            }
        }
        // A pool that leaves no room to anybody is to blame itself.
        let left = self.left(pool).filter(|left| *left >= SPARE)?;
        let size: usize = names.iter().map(|(_, text)| cost(text.len())).sum();
        if size <= left {
            return None;
        }
        let called: Vec<&str> = names.iter().map(|(what, _)| *what).collect();
        let message = format!(
            "its {} take {size} bytes in its program's environment, {left} are left: arguments and environment may have {} \
             bytes, a quarter of the limit for the stack (ulimit -s)",
            called.join(", "),
            self.all
        );
        failure("too long", message)
    }
}

/// What a string takes: its bytes, its NUL and a pointer.
fn cost(len: usize) -> usize {
    len + 1 + size_of::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program with these variables; None if the kernel refuses it for its length.
    fn runs(variables: &[(&str, usize)]) -> Option<()> {
        let mut program = std::process::Command::new("/bin/true");
        program.env_clear();
        program.envs(variables.iter().map(|(name, len)| (name, "x".repeat(*len))));
        match program.status() {
            Ok(status) => status.success().then_some(()),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
                None
            }
        }
    }

    fn refused(room: Room, names: &[usize], pool: &[usize]) -> Option<String> {
        let text = |len: &usize| vec![b'x'; *len];
        let names: Vec<_> = names.iter().map(|len| ("class", text(len))).collect();
        let pool: Vec<_> = pool.iter().map(text).collect();
        room.refuses(&names, pool.iter()).map(|failure| failure.message)
    }

    #[test]
    fn longest_name_is_the_one_that_the_kernel_takes() {
        let room = Room::here();
        for (len, is_taken) in [(room.each - 1, true), (room.each, false)] {
            assert_eq!(refused(room, &[len], &[]).is_none(), is_taken, "{len}");
            assert_eq!(runs(&[("A", len - 2)]).is_some(), is_taken, "{len}");
        }
    }

    #[test]
    fn whatever_is_not_refused_fits_into_the_kernels_room() {
        let room = Room::here();
        let many = (room.all - SPARE) / cost(100_000);
        let names: Vec<String> = (0..many).map(|n| format!("N{n:03}")).collect();
        let variables: Vec<_> = names.iter().map(|name| (name.as_str(), 100_000 - 5)).collect();
        assert_eq!(refused(room, &vec![100_000; many], &[]), None);
        assert_eq!(runs(&variables), Some(()));
        assert!(refused(room, &vec![100_000; many + 1], &[]).unwrap().contains("ulimit -s"));
    }

    #[test]
    fn job_does_not_pay_for_a_pool_that_leaves_no_room() {
        let room = Room { each: 128 << 10, all: 128 << 10 };
        assert!(refused(room, &[62_000], &[62_000]).is_some());
        assert_eq!(refused(room, &[60_000], &[116_000]), None);
        assert_eq!(refused(room, &[10], &[200_000]), None);
        assert!(!room.fits([vec![0; 128 << 10]].iter()) && room.fits([vec![0; 60_000]].iter()));
        let nul = room.refuses(&[("id", b"a\0b".to_vec())], [].iter()).unwrap();
        assert_eq!(nul.group, "NUL byte");
    }
}
