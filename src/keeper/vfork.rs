//! A child that shares the memory of its parent until it executes a program: no page of it is copied.
//!
//! The parent stands still meanwhile (`CLONE_VFORK`). The child has a stack of its own, and makes its system calls
//! without the C library, whose wrappers write the `errno` of the parent's thread.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use nix::errno::Errno;

/// Whether this processor's calls are written down here.
pub(super) const IS_KNOWN: bool = cfg!(target_arch = "x86_64");

/// Size of the child's stack, in bytes: it calls few functions and none that allocates.
const STACK: usize = 64 << 10;

/// A stack for one child at a time, with a page below it that nobody may touch.
pub(super) struct Stack(NonNull<libc::c_void>);

impl Stack {
    pub(crate) fn new() -> nix::Result<Stack> {
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping of that size, which the value owns for good.
        let base = unsafe {
            let base = libc::mmap(std::ptr::null_mut(), STACK, read_write, private | libc::MAP_STACK, -1, 0);
            if base == libc::MAP_FAILED {
                return Err(Errno::last());
            }
            libc::mprotect(base, 4096, libc::PROT_NONE);
            base
        };
        NonNull::new(base).map(Stack).ok_or(Errno::ENOMEM)
    }
}

/// A system call without the C library: the result, or the negative error number.
///
/// # Safety
/// As the call itself: pointers among the arguments must be valid for what it does with them.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call<const N: usize>(number: libc::c_long, given: [usize; N]) -> isize {
    let mut args = [0; 6];
    let mut at = 0;
    while at < N {
        args[at] = given[at];
        at += 1;
    }
    let result;
    // SAFETY: the kernel changes rax, rcx and r11 only, and memory as the caller has promised.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Other processors have no such call here: see [`IS_KNOWN`].
///
/// # Safety
/// None is needed: nothing is done.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn call<const N: usize>(_: libc::c_long, _: [usize; N]) -> isize {
    -(libc::ENOSYS as isize)
}

/// Runs `child` in a new process, a child of this process's own parent, and returns when that has executed a program or
/// has ended. It is born in `cgroup` if one is given.
///
/// # Safety
/// This process has one thread, and blocks all signals. `child` and all that it reaches neither allocates nor uses the
/// C library nor panics, and what `arg` points to lives until this returns.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn spawn<T>(
    stack: &mut Stack,
    cgroup: Option<BorrowedFd<'_>>,
    child: unsafe extern "C" fn(*const T) -> !,
    arg: *const T,
) -> nix::Result<i32> {
    // SAFETY: all-zero is a valid clone_args: no flag, no pointer. The exit signal must be 0 with CLONE_PARENT: the
    // child gets that of this process.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT) as u64;
    (args.stack, args.stack_size) = (stack.0.as_ptr() as u64, STACK as u64);
    if let Some(cgroup) = cgroup {
        args.flags |= super::sys::CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    let result: isize;
    // SAFETY: the child comes back from the call on its own empty stack, so it may not return from here: it calls
    // `child` with `arg`. The parent comes back as from any call; the child has changed memory only where it was told.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") &raw mut args, in("rsi") size_of::<libc::clone_args>(),
            in("r12") arg, in("r13") child,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if result < 0 { Err(Errno::from_raw(-result as i32)) } else { Ok(result as i32) }
}

/// Other processors have no such call here: see [`IS_KNOWN`].
///
/// # Safety
/// None is needed: nothing is done.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn spawn<T>(
    _: &mut Stack,
    _: Option<BorrowedFd<'_>>,
    _: unsafe extern "C" fn(*const T) -> !,
    _: *const T,
) -> nix::Result<i32> {
    Err(Errno::ENOSYS)
}
