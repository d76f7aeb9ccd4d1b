//! The kinds that this program was built without.

use super::kinds::{KINDS, Kind};
use broker::Wrong;

/// What is wrong with a URL, if its kind is not built in; `wrong` is what is wrong for the kinds that are.
pub(super) fn explained(url: &str, wrong: Wrong) -> Wrong {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let of_scheme = |kind: &&Kind| scheme.is_some_and(|scheme| kind.schemes.contains(&scheme));
    match KINDS.iter().filter(|kind| !kind.is_built).find(of_scheme) {
        Some(kind) => Wrong {
            what: without(kind),
            hint: format!("build it with `--features {}`; {}", kind.feature, wrong.hint),
        },
        None => wrong,
    }
}

fn without(kind: &Kind) -> String {
    format!("this taskvisor is built without {} (feature `{}`)", kind.name, kind.feature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ADAPTERS, address};

    #[test]
    fn kind_that_is_left_out_says_which_feature_brings_it() {
        for kind in KINDS {
            for scheme in kind.schemes {
                let found = ADAPTERS.iter().find(|adapter| adapter.schemes().contains(scheme));
                assert_eq!(found.is_some(), kind.is_built, "{scheme}");
                let wrong = address(&format!("{scheme}:")).map(drop).unwrap_err();
                assert_eq!(wrong.what == without(kind), !kind.is_built, "{scheme}: {}", wrong.what);
            }
        }
    }

    #[test]
    fn every_kind_but_the_store_has_a_feature() {
        let known = |scheme| KINDS.iter().any(|kind| kind.schemes.contains(scheme));
        let schemes = ADAPTERS.iter().flat_map(|adapter| adapter.schemes());
        let left: Vec<_> = schemes.filter(|scheme| !known(scheme)).collect();
        assert_eq!(left, [&"sqlite", &"memory"]);
    }
}
