//! What a person may set, and what it means.
