//! The values of a pickle during reading. A pickle may name a list before it fills it, and name it twice, so values
//! refer to others by number.

use super::Value;

/// The number of a node.
pub(super) type Id = u32;

/// A value that may hold others.
pub(super) enum Node {
    /// A value that holds no others.
    Leaf(Value),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Set(Vec<Id>),
    FrozenSet(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function.
    Global(String),
    /// An object that a class or function would have made.
    Object(String),
}

/// All values of a pickle.
#[derive(Default)]
pub(super) struct Arena(pub(super) Vec<Node>);

/// Why nodes do not form a value.
pub(super) enum Unfit {
    /// Lists are nested too deeply, or a list holds itself.
    Deep,
    /// The same list appears in many places.
    Large,
}

impl Arena {
    /// Copies the tree below a node, of at most `depth` levels. Subtracts the memory that it takes from `budget`, in
    /// bytes.
    pub(super) fn value(&self, id: Id, depth: usize, budget: &mut usize) -> Result<Value, Unfit> {
        // First: a list that holds itself would never end.
        let depth = depth.checked_sub(1).ok_or(Unfit::Deep)?;
        let node = &self.0[id as usize];
        // Before the copy: a few bytes of a pickle can name one list in a million places.
        *budget = budget.checked_sub(node.weight()).ok_or(Unfit::Large)?;
        let mut all =
            |ids: &[Id]| ids.iter().map(|id| self.value(*id, depth, budget)).collect::<Result<Vec<_>, _>>();
        Ok(match node {
            Node::Leaf(value) => value.clone(),
            Node::List(ids) => Value::List(all(ids)?),
            Node::Tuple(ids) => Value::Tuple(all(ids)?),
            Node::Set(ids) => Value::Set(all(ids)?),
            Node::FrozenSet(ids) => Value::FrozenSet(all(ids)?),
            Node::Dict(entries) => {
                let mut pairs = Vec::new();
                for (key, value) in entries {
                    pairs.push((self.value(*key, depth, budget)?, self.value(*value, depth, budget)?));
                }
                Value::Dict(pairs)
            }
            Node::Global(name) | Node::Object(name) => Value::Object(name.clone()),
        })
    }

    /// The text of a node, if it is a text.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        match &self.0[id as usize] {
            Node::Leaf(Value::Str(text)) => Some(text),
            Node::Leaf(_)
            | Node::List(_)
            | Node::Tuple(_)
            | Node::Set(_)
            | Node::FrozenSet(_)
            | Node::Dict(_)
            | Node::Global(_)
            | Node::Object(_) => None,
        }
    }
}

impl Node {
    /// Memory of its value in bytes, without the values that it holds.
    fn weight(&self) -> usize {
        let own = match self {
            Node::Leaf(Value::Str(text)) => text.len(),
            Node::Leaf(Value::Bytes(bytes) | Value::Big(bytes)) => bytes.len(),
            Node::Global(name) | Node::Object(name) => name.len(),
            Node::Leaf(_)
            | Node::List(_)
            | Node::Tuple(_)
            | Node::Set(_)
            | Node::FrozenSet(_)
            | Node::Dict(_) => 0,
        };
        size_of::<Value>() + own
    }
}
