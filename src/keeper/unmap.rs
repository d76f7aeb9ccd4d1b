//! Lets go of the code through which only the start of a process runs.

use std::ffi::{c_int, c_void};

/// Unmaps the program's code and constants. What is used from here on is mapped again, 64 KB at a time and from memory:
/// a hundred page faults or so. The rest no longer counts as this process's memory, and the kernel may use that for
/// something else.
pub fn unmap_code() {
    // SAFETY: the function has the type that is asked for, and gets no data of ours.
    unsafe { libc::dl_iterate_phdr(Some(unmap), std::ptr::null_mut()) };
}

/// Unmaps the code of the first object, which is the program, and ends the walk.
///
/// # Safety
/// The object is one that the loader describes.
unsafe extern "C" fn unmap(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    const PAGE: usize = 4096;
    // SAFETY: the loader's description is valid during this call.
    let (base, parts) = unsafe {
        let object = &*object;
        (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    // What may be written is not in the file.
    for part in parts.iter().filter(|part| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_W == 0) {
        let begin = (base + part.p_vaddr) as usize;
        let (first, end) = (begin / PAGE * PAGE, begin + part.p_memsz as usize);
        // SAFETY: all of it is mapped from the file and never written to, so the kernel brings back the same.
        unsafe { libc::madvise(first as *mut c_void, end - first, libc::MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kilobytes of this program's code that are mapped.
    fn mapped() -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the own maps");
        let own = std::env::current_exe().expect("a path").display().to_string();
        let begins = |line: &&str| line.contains(" r-xp ") && line.ends_with(&own);
        let mut lines = maps.lines();
        let mut sum = 0;
        while lines.by_ref().find(begins).is_some() {
            let rss = lines.by_ref().find_map(|line| line.strip_prefix("Rss:")).expect("a size");
            sum += rss.trim_end_matches("kB").trim().parse::<u64>().expect("a number");
        }
        sum
    }

    #[test]
    fn unmapped_code_counts_as_no_memory_and_runs_again() {
        let before = mapped();
        unmap_code();
        let after = mapped();
        assert!(after * 4 < before * 3, "{before} KB before, {after} after");
        // The addresses in constants are relocated, and stand elsewhere.
        let named: [&dyn std::fmt::Display; 2] = [&"text", &7];
        assert_eq!(named.map(|any| any.to_string()), ["text", "7"]);
    }
}
