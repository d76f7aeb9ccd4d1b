//! Reads a pickle without executing it.

use std::collections::BTreeMap;

use super::arena::{Arena, Id, Node, Unfit};
use super::opcodes::*;
use super::{Value, text};

/// Limits for reading a pickle.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of values, including unused ones.
    pub values: usize,
    /// Nesting depth of lists.
    pub depth: usize,
    /// Memory of the value, in bytes; a list in two places counts twice.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { values: 200_000, depth: 100, bytes: 32 << 20 }
    }
}

/// Why bytes are not a pickle that is understood here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pickle is refused at byte {at}: {why}")]
pub struct PickleError {
    /// The position of the opcode, counted from 0.
    pub at: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Reads a pickle of protocol 0 to 5. Nothing in it is executed: an object becomes the name of its class.
pub fn read(bytes: &[u8], limits: Limits) -> Result<Value, PickleError> {
    let mut reader = Reader {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        arena: Arena::default(),
        frame_end: 0,
        values_max: limits.values,
    };
    let mut opcode = 0;
    reader
        .run(&mut opcode)
        .and_then(|id| reader.value(id, limits))
        .map_err(|why| PickleError { at: opcode, why })
}

/// A sentence with the reason.
pub(super) type Refusal = String;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Id>,
    /// Stack heights at the marks.
    marks: Vec<usize>,
    memo: BTreeMap<u64, Id>,
    pub(super) arena: Arena,
    /// Where the current frame of protocol 4 or 5 ends.
    frame_end: usize,
    values_max: usize,
}

impl<'a> Reader<'a> {
    fn run(&mut self, opcode: &mut usize) -> Result<Id, Refusal> {
        loop {
            *opcode = self.at;
            match self.byte()? {
                STOP => return self.pop(),
                code => self.step(code)?,
            }
        }
    }

    fn value(&self, id: Id, limits: Limits) -> Result<Value, Refusal> {
        let mut budget = limits.bytes;
        self.arena.value(id, limits.depth, &mut budget).map_err(|unfit| match unfit {
            Unfit::Deep => format!("its values nest more than {} levels deep", limits.depth),
            Unfit::Large => format!("its value takes more than {} bytes", limits.bytes),
        })
    }

    fn step(&mut self, code: u8) -> Result<(), Refusal> {
        match code {
            PROTO => match self.byte()? {
                0..=5 => Ok(()),
                other => Err(format!("its protocol is {other}: 0 to 5 are known")),
            },
            FRAME => self.frame(),
            MARK => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            POP => match self.marks.last() {
                // As in Python: with no value above the mark, the mark goes.
                Some(mark) if *mark == self.stack.len() => self.pop_to_mark().map(drop),
                _ => self.pop().map(drop),
            },
            POP_MARK => self.pop_to_mark().map(drop),
            DUP => {
                let id = self.top()?;
                self.place(id)
            }
            LIST | TUPLE | DICT | FROZENSET => self.gather(code),
            TUPLE1 | TUPLE2 | TUPLE3 => {
                let first = self
                    .stack
                    .len()
                    .checked_sub(usize::from(code - TUPLE1) + 1)
                    .ok_or("it has too few values")?;
                self.keep_above_mark(first)?;
                let ids = self.stack.drain(first..).collect();
                self.push(Node::Tuple(ids))
            }
            APPEND | APPENDS | SETITEM | SETITEMS | ADDITEMS => self.add(code),
            PUT | BINPUT | LONG_BINPUT | MEMOIZE | GET | BINGET | LONG_BINGET => self.remember(code),
            GLOBAL | STACK_GLOBAL | REDUCE | NEWOBJ | NEWOBJ_EX | BUILD | INST | OBJ | BYTEARRAY8 => {
                self.object(code)
            }
            _ => {
                let node = self.scalar(code)?;
                self.push(node)
            }
        }
    }

    /// A value that holds no others, or an empty one.
    fn scalar(&mut self, code: u8) -> Result<Node, Refusal> {
        let number = || "it has a number that is none".to_owned();
        Ok(Node::Leaf(match code {
            NONE => Value::None,
            NEWTRUE => Value::Bool(true),
            NEWFALSE => Value::Bool(false),
            BININT => Value::Int(i64::from(i32::from_le_bytes(self.array()?))),
            BININT1 => Value::Int(i64::from(self.byte()?)),
            BININT2 => Value::Int(i64::from(u16::from_le_bytes(self.array()?))),
            LONG1 | LONG4 => text::integer(self.counted(if code == LONG1 { 1 } else { 4 })?),
            INT => self.line_of_text()?.and_then(text::int).ok_or_else(number)?,
            LONG => self.line_of_text()?.and_then(text::long).ok_or_else(number)?,
            FLOAT => {
                Value::Float(self.line_of_text()?.and_then(|line| line.parse().ok()).ok_or_else(number)?)
            }
            BINFLOAT => Value::Float(f64::from_be_bytes(self.array()?)),
            SHORT_BINBYTES => Value::Bytes(self.counted(1)?.to_vec()),
            BINBYTES => Value::Bytes(self.counted(4)?.to_vec()),
            BINBYTES8 => Value::Bytes(self.counted(8)?.to_vec()),
            SHORT_BINUNICODE => unicode(self.counted(1)?),
            BINUNICODE => unicode(self.counted(4)?),
            BINUNICODE8 => unicode(self.counted(8)?),
            UNICODE => text::raw_unicode(self.line()?).ok_or("it has a text that is none")?,
            STRING => text::quoted(self.line()?)
                .map(Value::Str)
                .ok_or("it has a string of Python 2 that is not ASCII")?,
            SHORT_BINSTRING | BINSTRING => {
                let bytes = self.counted(if code == SHORT_BINSTRING { 1 } else { 4 })?;
                let ascii = str::from_utf8(bytes).ok().filter(|text| text.is_ascii());
                Value::Str(ascii.ok_or("it has a string of Python 2 that is not ASCII")?.to_owned())
            }
            EMPTY_LIST => return Ok(Node::List(Vec::new())),
            EMPTY_TUPLE => return Ok(Node::Tuple(Vec::new())),
            EMPTY_SET => return Ok(Node::Set(Vec::new())),
            EMPTY_DICT => return Ok(Node::Dict(Vec::new())),
            _ => return Err(format!("its opcode 0x{code:02x} is none that messages of kale have")),
        }))
    }

    /// Makes one value of everything since the mark.
    fn gather(&mut self, code: u8) -> Result<(), Refusal> {
        let items = self.pop_to_mark()?;
        let node = match code {
            DICT => Node::Dict(pairs(&items)?),
            LIST => Node::List(items),
            TUPLE => Node::Tuple(items),
            _ => Node::FrozenSet(items),
        };
        self.push(node)
    }

    /// Adds values to the list, set or dict below them.
    fn add(&mut self, code: u8) -> Result<(), Refusal> {
        let items = match code {
            APPEND => vec![self.pop()?],
            SETITEM => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_to_mark()?,
        };
        let id = self.top()?;
        match (&mut self.arena.0[id as usize], code) {
            (Node::List(list), APPEND | APPENDS) => list.extend(items),
            (Node::Set(set), ADDITEMS) => set.extend(items),
            (Node::Dict(dict), SETITEM | SETITEMS) => dict.extend(pairs(&items)?),
            // Only the name of an object is kept.
            (Node::Object(_), _) => {}
            _ => return Err("it adds values to what holds none of that kind".into()),
        }
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Result<(), Refusal> {
        let index = match code {
            MEMOIZE => self.memo.len() as u64,
            BINPUT | BINGET => u64::from(self.byte()?),
            LONG_BINPUT | LONG_BINGET => u64::from(u32::from_le_bytes(self.array()?)),
            _ => self
                .line_of_text()?
                .and_then(|line| line.parse().ok())
                .ok_or("it has a memo without a number")?,
        };
        if matches!(code, GET | BINGET | LONG_BINGET) {
            let id = *self
                .memo
                .get(&index)
                .ok_or_else(|| format!("it uses memo {index}, which it has not set"))?;
            return self.place(id);
        }
        let id = self.top()?;
        self.memo.insert(index, id);
        // A memo adds no value, so it needs a limit of its own.
        if self.memo.len() > self.values_max {
            return Err(format!("it has more than {} memos", self.values_max));
        }
        Ok(())
    }

    fn frame(&mut self) -> Result<(), Refusal> {
        let length = usize::try_from(u64::from_le_bytes(self.array()?)).unwrap_or(usize::MAX);
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        // As in Python: a frame must not begin inside another.
        let end = end.filter(|_| self.frame_end <= self.at);
        self.frame_end = end.ok_or("it has a frame that does not fit")?;
        Ok(())
    }

    pub(super) fn push(&mut self, node: Node) -> Result<(), Refusal> {
        let id = self.arena.0.len();
        if id >= self.values_max {
            return Err(format!("it has more than {} values", self.values_max));
        }
        self.arena.0.push(node);
        self.place(u32::try_from(id).map_err(|_| "it has too many values")?)
    }

    fn place(&mut self, id: Id) -> Result<(), Refusal> {
        // Only DUP and GET add to the stack without adding a value.
        if self.stack.len() >= self.values_max {
            return Err(format!("it has more than {} values", self.values_max));
        }
        self.stack.push(id);
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Result<Id, Refusal> {
        self.keep_above_mark(self.stack.len().saturating_sub(1))?;
        self.stack.pop().ok_or_else(|| "it has too few values".into())
    }

    pub(super) fn top(&self) -> Result<Id, Refusal> {
        self.stack.last().copied().ok_or_else(|| "it has too few values".into())
    }

    fn keep_above_mark(&self, first: usize) -> Result<(), Refusal> {
        match self.marks.last() {
            Some(mark) if *mark > first => Err("it takes values from before a mark".into()),
            _ => Ok(()),
        }
    }

    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Id>, Refusal> {
        let mark = self.marks.pop().ok_or("it has too few marks")?;
        Ok(self.stack.split_off(mark))
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        self.slice(N)?.try_into().map_err(|_| "it ends too early".into())
    }

    /// Bytes that follow their own length, which has `width` bytes.
    pub(super) fn counted(&mut self, width: usize) -> Result<&'a [u8], Refusal> {
        let mut count = [0; 8];
        count[..width].copy_from_slice(self.slice(width)?);
        self.slice(usize::try_from(u64::from_le_bytes(count)).unwrap_or(usize::MAX))
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let end =
            self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or("it ends too early")?;
        let slice = &self.bytes[self.at..end];
        self.at = end;
        Ok(slice)
    }

    /// The bytes up to the end of the line.
    pub(super) fn line(&mut self) -> Result<&'a [u8], Refusal> {
        let length =
            self.bytes[self.at..].iter().position(|byte| *byte == b'\n').ok_or("it ends too early")?;
        let line = self.slice(length)?;
        self.at += 1;
        Ok(line)
    }

    fn line_of_text(&mut self) -> Result<Option<&'a str>, Refusal> {
        Ok(str::from_utf8(self.line()?).ok())
    }
}

fn unicode(bytes: &[u8]) -> Value {
    // Python writes half of a surrogate pair as bytes that are no UTF-8 (surrogatepass).
    str::from_utf8(bytes).map_or_else(|_| text::unknown_text(), |text| Value::Str(text.to_owned()))
}

fn pairs(items: &[Id]) -> Result<Vec<(Id, Id)>, Refusal> {
    let (keys, rest) = items.as_chunks::<2>();
    match rest {
        [] => Ok(keys.iter().map(|[key, value]| (*key, *value)).collect()),
        _ => Err("it has a key without a value".into()),
    }
}
