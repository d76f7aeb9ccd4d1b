//! Python objects in a pickle. None is made: a call of a class or function becomes its name.

use super::Value;
use super::arena::{Id, Node};
use super::opcodes::*;
use super::reader::{Reader, Refusal};

impl Reader<'_> {
    pub(super) fn object(&mut self, code: u8) -> Result<(), Refusal> {
        let node = match code {
            GLOBAL => Node::Global(self.two_lines()?),
            STACK_GLOBAL => {
                // The name was pushed last.
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.arena.text(module), self.arena.text(name)) {
                    (Some(module), Some(name)) => Node::Global(format!("{module}.{name}")),
                    _ => return Err("it names a class by what is no text".into()),
                }
            }
            INST => {
                // The arguments of an object are dropped: it is never made.
                self.pop_to_mark()?;
                Node::Object(self.two_lines()?)
            }
            OBJ => {
                let class = self.pop_to_mark()?.first().copied();
                Node::Object(self.global(class.ok_or("it makes an object of no class")?)?)
            }
            BYTEARRAY8 => {
                self.counted(8)?;
                Node::Object("builtins.bytearray".into())
            }
            BUILD => {
                self.pop()?;
                // The state is dropped, as the object is never made.
                let id = self.top()?;
                if !matches!(self.arena.0[id as usize], Node::Object(_)) {
                    return Err("it sets the state of what is no object".into());
                }
                return Ok(());
            }
            REDUCE => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                self.called(callable, arguments)?
            }
            _ => {
                // NEWOBJ_EX has arguments with names, too.
                for _ in 0..if code == NEWOBJ_EX { 2 } else { 1 } {
                    self.pop()?;
                }
                let class = self.pop()?;
                Node::Object(self.global(class)?)
            }
        };
        self.push(node)
    }

    /// The result of a call. Protocols 0 to 2 write bytes and sets as calls of known functions; any other call is an
    /// object.
    fn called(&self, callable: Id, arguments: Id) -> Result<Node, Refusal> {
        let name = self.global(callable)?;
        let Node::Tuple(arguments) = &self.arena.0[arguments as usize] else {
            return Err(format!("it calls {name} with what is no tuple"));
        };
        let known = match (name.as_str(), arguments.as_slice()) {
            // Before protocol 3 there is no opcode for bytes: they are a text in Latin-1 that is to be encoded.
            ("_codecs.encode", [text, _]) => {
                self.arena.text(*text).and_then(latin1).map(|bytes| Node::Leaf(Value::Bytes(bytes)))
            }
            ("__builtin__.bytes" | "builtins.bytes", []) => Some(Node::Leaf(Value::Bytes(Vec::new()))),
            ("__builtin__.set" | "builtins.set", [list]) => self.list(*list).map(Node::Set),
            ("__builtin__.frozenset" | "builtins.frozenset", [list]) => self.list(*list).map(Node::FrozenSet),
            ("copy_reg._reconstructor" | "copyreg._reconstructor", [class, ..]) => {
                return Ok(Node::Object(self.global(*class)?));
            }
            _ => None,
        };
        Ok(known.unwrap_or(Node::Object(name)))
    }

    fn list(&self, id: Id) -> Option<Vec<Id>> {
        let Node::List(ids) = &self.arena.0[id as usize] else { return None };
        Some(ids.clone())
    }

    fn global(&self, id: Id) -> Result<String, Refusal> {
        let Node::Global(name) = &self.arena.0[id as usize] else {
            return Err("it calls what is no name of a class or function".into());
        };
        Ok(name.clone())
    }

    fn two_lines(&mut self) -> Result<String, Refusal> {
        let (module, name) = (self.line()?, self.line()?);
        match (str::from_utf8(module), str::from_utf8(name)) {
            (Ok(module), Ok(name)) => Ok(format!("{module}.{name}")),
            _ => Err("it names a class by what is no text".into()),
        }
    }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect()
}
