//! Ids of tasks: tenant, service path and correlation id before a unique part, so that the ids of a tenant's tasks
//! begin alike.
//!
//! Each element is base32 in small letters and digits (RFC 4648's alphabet with order kept, `0-9a-v`, unpadded).
//! Elements are joined by `_`; an empty element is empty text. So an id is legal for every broker, no element can
//! contain the separator, and ids sort as their elements do.

use std::fmt::Write as _;

use model::{JobId, NewJob};

/// Whose a task is, and which one.
///
/// ```
/// use taskvisor_wq::TaskId;
/// let id = TaskId { tenant: "x".into(), service_path: "/".into(), correlator: String::new(), unique: 7 };
/// let job = id.job_id()?;
/// assert_eq!(job.as_str(), "f0_5s__0000000000000000000000000s");
/// assert_eq!(TaskId::parse(job.as_str()), Some(id));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskId {
    /// The tenant; may be empty.
    pub tenant: String,
    /// The service path; may be empty.
    pub service_path: String,
    /// The client's name for the exchange to which the task belongs; may be empty.
    pub correlator: String,
    /// The unique part; if it is a UUID of version 7, later ones are greater.
    pub unique: u128,
}

impl TaskId {
    /// The id of its job; fails with a reason if the elements are too long for an id.
    pub fn job_id(&self) -> Result<JobId, String> {
        let scope = self.scope().prefix();
        let id = scope + &encode(&self.unique.to_be_bytes());
        match id.len().checked_sub(NewJob::NAME_MAX + 1) {
            None => Ok(id.into()),
            Some(_) => {
                let own = [&self.tenant, &self.service_path, &self.correlator];
                let long: usize = own.iter().map(|element| element.len()).sum();
                Err(format!(
                    "tenant, service path and correlator of {long} bytes together are too long for an id: {LONGEST} are the \
                     most"
                ))
            }
        }
    }

    /// The task that an id names; `None` if the id was not made by [`TaskId::job_id`].
    pub fn parse(id: &str) -> Option<TaskId> {
        let mut elements = id.split('_');
        let mut next = || decode(elements.next()?);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        let (tenant, service_path, correlator) = (text(next()?)?, text(next()?)?, text(next()?)?);
        let unique = u128::from_be_bytes(next()?.try_into().ok()?);
        elements.next().is_none().then_some(TaskId { tenant, service_path, correlator, unique })
    }

    /// The narrowest scope that contains it.
    pub fn scope(&self) -> Scope {
        let within = Some((self.service_path.clone(), Some(self.correlator.clone())));
        Scope { tenant: self.tenant.clone(), within }
    }
}

/// Limit of the bytes of tenant, service path and correlator together: any division of them makes an id of at most
/// [`NewJob::NAME_MAX`] bytes.
// 26 letters of the unique part, 3 separators, and 3 letters as each element may round up.
const LONGEST: usize = (NewJob::NAME_MAX - 26 - 3 - 3) * 5 / 8;

/// The tasks of a tenant, of a service path of it, or of an exchange there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The tenant; may be empty.
    pub tenant: String,
    /// The service path, and the correlator there; without a path, all paths.
    pub within: Option<(String, Option<String>)>,
}

impl Scope {
    /// The beginning of the ids of its tasks. It ends with the separator, so that `/ab` does not include `/abc`.
    pub fn prefix(&self) -> String {
        let path = self.within.as_ref().map(|(path, _)| path);
        let correlator = self.within.as_ref().and_then(|(_, correlator)| correlator.as_ref());
        let elements = [Some(&self.tenant), path, correlator].into_iter().flatten();
        elements.fold(String::new(), |mut prefix, element| {
            _ = write!(prefix, "{}_", encode(element.as_bytes()));
            prefix
        })
    }
}

/// In the order of their values, which is also that of their bytes.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut word) = (0, 0u32);
    for byte in bytes {
        // What was written already runs off the top: only the lowest `bits` count.
        (bits, word) = (bits + 8, word << 8 | u32::from(*byte));
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(word >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[(word << (5 - bits) & 31) as usize]));
    }
    text
}

/// The inverse of [`encode`]; `None` for other texts, so that no two texts give the same bytes.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut bits, mut word) = (0, 0u32);
    for letter in text.bytes() {
        let value = match letter {
            b'0'..=b'9' => letter - b'0',
            b'a'..=b'v' => letter - b'a' + 10,
            _ => return None,
        };
        (bits, word) = (bits + 5, word << 5 | u32::from(value));
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits & 255) as u8);
        }
    }
    let rest = word & ((1 << bits) - 1);
    (bits < 5 && rest == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn task(tenant: &str, path: &str, correlator: &str) -> TaskId {
        TaskId { tenant: tenant.into(), service_path: path.into(), correlator: correlator.into(), unique: 1 }
    }

    fn scope(tenant: &str, path: &str, correlator: Option<&str>) -> Scope {
        Scope { tenant: tenant.into(), within: Some((path.into(), correlator.map(Into::into))) }
    }

    proptest! {
        #[test]
        fn task_id_round_trips(
            tenant in ".{0,12}", path in "(/[a-zA-Zé_:*?-]{0,6}){0,4}", correlator in ".{0,12}", unique in any::<u128>(),
        ) {
            let made = TaskId { tenant, service_path: path, correlator, unique };
            if let Ok(id) = made.job_id() {
                prop_assert!(id.as_str().len() <= NewJob::NAME_MAX);
                let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                prop_assert!(id.as_str().chars().all(legal), "{}", id);
                prop_assert_eq!(TaskId::parse(id.as_str()), Some(made));
            }
        }

        #[test]
        fn parsed_task_id_formats_to_the_same_text(text in "[0-9a-w_]{20,60}") {
            if let Some(id) = TaskId::parse(&text) {
                let made = id.job_id().unwrap();
                prop_assert_eq!(made.as_str(), text);
            }
        }

        #[test]
        fn encoding_preserves_the_order_of_bytes(one in vec(any::<u8>(), 0..9), other in vec(any::<u8>(), 0..9)) {
            prop_assert_eq!(decode(&encode(&one)), Some(one.clone()));
            if one.len() == other.len() {
                prop_assert_eq!(one.cmp(&other), encode(&one).cmp(&encode(&other)));
            }
        }

        #[test]
        fn task_id_matches_only_scopes_of_its_own_elements(
            a in "[ab/]{0,4}", b in "[ab/]{0,4}", c in "[ab/]{0,4}", x in "[ab/]{0,4}", y in "[ab/]{0,4}", z in "[ab/]{0,4}",
        ) {
            let id = task(&a, &b, &c).job_id().unwrap();
            let has = |scope: Scope| id.as_str().starts_with(&scope.prefix());
            let whole = Scope { tenant: x.clone(), within: None };
            prop_assert_eq!(has(whole), a == x);
            prop_assert_eq!(has(scope(&x, &y, None)), a == x && b == y);
            prop_assert_eq!(has(scope(&x, &y, Some(&z))), a == x && b == y && c == z);
        }
    }

    #[test]
    fn scope_of_a_path_does_not_match_a_longer_path() {
        for (path, longer) in [("/ab", "/abc"), ("/abcde", "/abcdef"), ("", "/"), ("/", "/a")] {
            let id = task("t", longer, "").job_id().unwrap();
            assert!(!id.as_str().starts_with(&scope("t", path, None).prefix()), "{path} {longer}");
        }
    }

    #[test]
    fn foreign_ids_are_no_task_ids() {
        let made = task("x", "/", "").job_id().unwrap().to_string();
        assert!(TaskId::parse(&made).is_some());
        let others =
            ["", "a", "a_b_c_d", "0190f3c2a8b07d4c9f00aa00bb00cc00", "F0_5s__0", &format!("{made}_")];
        for other in
            others.into_iter().chain([made.strip_suffix('s'), made.strip_prefix("f0_")].into_iter().flatten())
        {
            assert_eq!(TaskId::parse(other), None, "{other}");
        }
        // The bits behind the last byte are zero.
        assert_eq!(TaskId::parse(&made.replacen("f0", "f1", 1)), None);
    }

    #[test]
    fn too_long_elements_are_refused_with_the_maximum() {
        let long = |length: usize| task(&"t".repeat(length), "", "").job_id();
        assert!(long(LONGEST).is_ok());
        let said = long(LONGEST + 3).unwrap_err();
        assert!(said.contains("of 143 bytes together") && said.ends_with("140 are the most"), "{said}");
    }
}
