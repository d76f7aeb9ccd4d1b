//! A job in sentences: its page, its attempts, what it needs, and who holds or ended it.

pub(super) mod alone;
pub(super) mod killer;
pub(super) mod needs;
pub(super) mod page;
pub(super) mod processes;
pub(super) mod timeline;
