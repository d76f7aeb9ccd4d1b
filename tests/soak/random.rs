//! Numbers that are the same in each run with a seed.

use std::sync::Mutex;

/// A splitmix generator, shared by threads.
pub struct Random(Mutex<u64>);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Mutex::new(seed.wrapping_mul(0xD1B5_4A32_D192_ED03)))
    }

    /// A number below `sides`.
    pub fn dice(&self, sides: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % sides.max(1)
    }

    pub fn pick<T: Copy>(&self, from: &[T]) -> Option<T> {
        from.get(usize::try_from(self.dice(from.len() as u64)).unwrap()).copied()
    }
}
