//! Fields of a form or of a query.

/// The fields, in their order; a name may come several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// Reads a text `name=value&…`.
    pub(crate) fn read(text: &str) -> Fields {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Fields(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(a, b)| (plain(a), plain(b)))
                .collect(),
        )
    }

    /// The first value of a name; none if it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// All values of a name, without empty ones.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }
}

fn plain(text: &str) -> String {
    let (bytes, mut at) = (text.as_bytes(), 0);
    let mut out = Vec::with_capacity(bytes.len());
    while let Some(byte) = bytes.get(at) {
        // A percent sign without two digits stands for itself (URL standard).
        let two = bytes.get(at + 1..at + 3).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        let digits = two.and_then(|two| std::str::from_utf8(two).ok());
        match (byte, digits.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_once() {
        let fields = Fields::read("a=1+2%2B3&b=%25zz%c3%a9%+f&a=&a=x&c");
        assert_eq!(
            (fields.get("a"), fields.get("b"), fields.get("c")),
            (Some("1 2+3"), Some("%zzé% f"), None)
        );
        assert_eq!(fields.all("a").collect::<Vec<_>>(), ["1 2+3", "x"]);
    }
}
