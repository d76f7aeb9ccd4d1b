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
    use std::fs::File;
    use std::io::Read;

    use super::*;

    /// Kilobytes of this program's code that are mapped, by what the kernel has said.
    fn mapped(maps: &str) -> u64 {
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

    /// Maps all of this program's code: how much of it is mapped otherwise depends on the page cache of the host.
    fn map_all() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the own maps");
        let own = std::env::current_exe().expect("a path").display().to_string();
        for line in maps.lines().filter(|line| line.contains(" r-xp ") && line.ends_with(&own)) {
            let (begin, end) =
                line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let address = |hex| usize::from_str_radix(hex, 16).expect("an address");
            for page in (address(begin)..address(end)).step_by(4096) {
                // SAFETY: the page is mapped and may be read.
                unsafe { std::ptr::read_volatile(page as *const u8) };
            }
        }
    }

    #[test]
    fn unmapped_code_counts_as_no_memory_and_runs_again() {
        map_all();
        let before = mapped(&std::fs::read_to_string("/proc/self/smaps").expect("the own maps"));
        let mut smaps = File::open("/proc/self/smaps").expect("the own maps");
        let mut said = vec![0; 1 << 20];
        unmap_code();
        // A call alone: each other line of code would be mapped again before it is counted.
        let length = smaps.read(&mut said).expect("the first lines");
        let after = mapped(&String::from_utf8_lossy(&said[..length]));
        assert!(after * 2 < before, "{before} KB before, {after} after");
        // The addresses in constants are relocated, and stand elsewhere.
        let named: [&dyn std::fmt::Display; 2] = [&"text", &7];
        assert_eq!(named.map(|any| any.to_string()), ["text", "7"]);
    }
}
