//! The terminal: a grid of cells, what of it has changed, the keys, and the modes.

pub mod decode;
pub mod grid;
pub mod paint;
pub mod terminal;
