//! The list of kinds, with the feature of the program that brings each.

use broker::Adapter;

/// A kind that a feature of the program brings.
pub(super) struct Kind {
    pub(super) feature: &'static str,
    /// What it brings, for people.
    pub(super) name: &'static str,
    /// The schemes of its URLs. They stand here too, so that a program without the kind knows whose they are.
    pub(super) schemes: &'static [&'static str],
    pub(super) is_built: bool,
}

/// Declares the kinds in the order of the documentation. A row is `"feature", name for people, schemes => adapter`.
macro_rules! kinds {
    ($($feature:literal, $name:literal, [$($scheme:literal),*] => $adapter:expr;)*) => {
        /// The kinds that are built in, in the order of the documentation.
        pub const ADAPTERS: &[&dyn Adapter] = &[
            &sqlite::InFile,
            &sqlite::InMemory,
            $(#[cfg(feature = $feature)] $adapter,)*
        ];

        /// All kinds but the embedded store, built in or not.
        pub(super) const KINDS: &[Kind] = &[
            $(Kind {
                feature: $feature,
                name: $name,
                schemes: &[$($scheme),*],
                is_built: cfg!(feature = $feature),
            },)*
        ];
    };
}

kinds! {
    "redis", "Redis",
        ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel"]
        => &qless::QlessOnRedis;
    "rq", "RQ", ["rq+redis", "rq+rediss", "rq+unix", "rq+redis+sentinel", "rq+rediss+sentinel"] => &rq::RqOnRedis;
    "sqs", "SQS", ["sqs"] => &sqs::AmazonSqs;
    "reliable", "the reliable queue",
        [
            "reliable+redis", "reliable+rediss", "reliable+unix", "reliable+sentinel", "reliable+redis+sentinel",
            "reliable+rediss+sentinel"
        ]
        => &reliable::ReliableQueue;
}

#[cfg(test)]
mod tests {
    use super::{KINDS, Kind};

    #[test]
    fn every_kind_is_a_feature_of_the_program_and_on_by_default() {
        let manifest = include_str!("../../Cargo.toml");
        let default = manifest.lines().find(|line| line.starts_with("default = ")).unwrap();
        for Kind { feature, .. } in KINDS {
            assert!(manifest.contains(&format!("\n{feature} = [\"brokers/{feature}\"")), "{feature}");
            assert!(default.contains(&format!("\"{feature}\"")), "{feature}");
        }
    }
}
