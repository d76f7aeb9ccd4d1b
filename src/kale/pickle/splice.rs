//! Changes single values of a pickle where they stand, so that objects which only Python knows stay as they are.

use std::ops::Range;

use super::reader::Pickle;
use super::writer;

/// A value that can be put in the place of another.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// An integer of Python.
    Int(i64),
    /// A float of Python.
    Float(f64),
    /// A text: Python's `str`.
    Str(String),
}

/// A key of the outermost dict, with its new value.
pub type Field<'a> = (&'a str, Scalar);

/// Why a value cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be changed in the pickle: {1}")]
pub struct SpliceError(pub String, pub &'static str);

impl Pickle {
    /// The bytes it was read from, with these values of its outermost dict changed. Each was a number, a text or `None`.
    pub fn with(&self, bytes: &[u8], fields: &[Field<'_>]) -> Result<Vec<u8>, SpliceError> {
        let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        for (key, scalar) in fields {
            let span = self.places.get(*key).ok_or_else(|| SpliceError((*key).into(), "it is not there"))?;
            let mut new = Vec::new();
            match scalar {
                Scalar::Int(value) => writer::int(&mut new, *value),
                Scalar::Float(value) => writer::float(&mut new, *value),
                // What was memoized in its place still is, and refers to the new one.
                Scalar::Str(value) => writer::text_without_memo(&mut new, value),
            }
            edits.push((span.clone(), new));
        }
        for frame in &self.frames {
            let inside = |edit: &&(Range<usize>, Vec<u8>)| frame.contains(&edit.0.start);
            let (mut grown, mut shrunk) = (frame.len(), 0);
            for (span, new) in edits.iter().filter(inside) {
                grown += new.len();
                shrunk += span.len();
            }
            let length = ((grown - shrunk) as u64).to_le_bytes();
            edits.push((frame.start - length.len()..frame.start, length.to_vec()));
        }
        edits.sort_by_key(|(span, _)| span.start);
        let mut spliced = Vec::new();
        let mut at = 0;
        for (span, new) in edits {
            let before = bytes
                .get(at..span.start)
                .ok_or_else(|| SpliceError("a field".into(), "two share a place"))?;
            spliced.extend(before);
            spliced.extend(new);
            at = span.end;
        }
        spliced.extend(&bytes[at..]);
        Ok(spliced)
    }
}
