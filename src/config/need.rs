//! Descriptors that a supervisor needs: the same figure for `start`, `check` and `doctor`.

/// Descriptors of a supervisor with one worker, including the embedded store and a few clients; and of each further
/// worker.
pub const DESCRIPTORS: (u64, u64) = (45, 3);

/// Descriptors of a supervisor with this number of workers.
pub fn descriptors(workers: u64) -> u64 {
    DESCRIPTORS.0 + DESCRIPTORS.1 * workers.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_have_the_same_descriptor_figures() {
        let page = include_str!("../../docs/operations.md");
        let (first, each) = DESCRIPTORS;
        let words = format!(
            "needs {first} descriptors for a supervisor with one worker, and {each} more for each further"
        );
        assert!(page.contains(&words), "{words}");
        assert!(page.contains(&format!("Below {first} it ends with code 74")), "{first}");
        assert_eq!((descriptors(0), descriptors(1), descriptors(8)), (45, 45, 66));
    }
}
