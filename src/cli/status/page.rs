//! The line of the page for browsers.

use std::fmt::Write as _;

use crate::cli::term::branch::Node;
use crate::cli::term::screen::escaped;
use model::PageStatus;

/// The page for browsers.
pub(super) fn page(page: &PageStatus) -> Node {
    let mut text = page.pid.map_or_else(|| "page  does not run".to_owned(), |pid| format!("page({pid})"));
    let _ = write!(text, "  {}", page.url.as_deref().unwrap_or_default());
    if page.restarts > 0 {
        let _ = write!(text, "  restarts {}", page.restarts);
    }
    Node::leaf(escaped(text.trim_end()))
}
