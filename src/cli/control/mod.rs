//! Commands that change or end a running supervisor.

pub(super) mod exchange;
pub(super) mod reload;
pub(super) mod stop;
pub(super) mod stop_preview;
