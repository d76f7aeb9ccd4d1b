//! Pools with whether each takes jobs of a class.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Fit, PoolStatus};

/// A pool, and what it makes of the class of the job that was asked about.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct PoolFit {
    /// Whether the pool runs jobs of the class, and if not, why.
    fit: Fit,
    /// The pool's status.
    #[serde(flatten)]
    pool: PoolStatus,
}

/// For `with`: the pools of a job.
pub(crate) struct Fits;

impl Fits {
    pub(crate) fn serialize<S: Serializer>(pools: &[(PoolStatus, Fit)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(pools.iter().map(|(pool, fit)| PoolFit { fit: *fit, pool: pool.clone() }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(PoolStatus, Fit)>, D::Error> {
        let pools = Vec::<PoolFit>::deserialize(from)?;
        Ok(pools.into_iter().map(|PoolFit { fit, pool }| (pool, fit)).collect())
    }
}

impl JsonSchema for Fits {
    fn schema_name() -> Cow<'static, str> {
        "Fits".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<PoolFit>::json_schema(generator)
    }
}
