//! Writes a pickle of protocol 4, byte for byte as Python's own pickler does.

use super::Value;
use super::opcodes::*;

/// The largest pickle in one frame. Python cuts larger ones into several frames, but no reader needs that.
const FRAME_MAX: usize = 64 << 10;

/// Entries of a list, set or dict that are added at once.
// Python's own number, its _BATCHSIZE.
const BATCH: usize = 1_000;

/// The pickle of a value. `None` if it contains an object, which only Python can write.
pub fn write(value: &Value) -> Option<Vec<u8>> {
    if !value.is_plain() {
        return None;
    }
    let mut body = Vec::new();
    put(&mut body, value);
    body.push(STOP);
    // The default of Python 3.8 to 3.13; all of them read it.
    let mut pickle = vec![PROTO, 4];
    if body.len() < FRAME_MAX {
        pickle.push(FRAME);
        pickle.extend((body.len() as u64).to_le_bytes());
    }
    pickle.extend(body);
    Some(pickle)
}

fn put(to: &mut Vec<u8>, value: &Value) {
    match value {
        // `write` has already refused objects.
        Value::None | Value::Object(_) => to.push(NONE),
        Value::Bool(value) => to.push(if *value { NEWTRUE } else { NEWFALSE }),
        Value::Int(value) => int(to, *value),
        Value::Big(bytes) => long(to, bytes),
        Value::Float(value) => float(to, *value),
        Value::Str(value) => text(to, value),
        Value::Bytes(bytes) => {
            counted(to, (SHORT_BINBYTES, BINBYTES, BINBYTES8), bytes);
            // Nothing reads the memo, but Python writes it.
            to.push(MEMOIZE);
        }
        Value::Tuple(items) => tuple(to, items),
        Value::List(items) => {
            to.extend([EMPTY_LIST, MEMOIZE]);
            batches(to, items, (Some(APPEND), APPENDS), put);
        }
        Value::Set(items) => {
            to.extend([EMPTY_SET, MEMOIZE]);
            batches(to, items, (None, ADDITEMS), put);
        }
        Value::FrozenSet(items) => {
            to.push(MARK);
            items.iter().for_each(|item| put(to, item));
            to.extend([FROZENSET, MEMOIZE]);
        }
        Value::Dict(entries) => {
            to.extend([EMPTY_DICT, MEMOIZE]);
            batches(to, entries, (Some(SETITEM), SETITEMS), |to, (key, value)| {
                put(to, key);
                put(to, value);
            });
        }
    }
}

/// Adds the items to the value pushed last. `one` is the opcode for a single item, if there is one.
fn batches<T>(to: &mut Vec<u8>, items: &[T], (one, many): (Option<u8>, u8), each: impl Fn(&mut Vec<u8>, &T)) {
    if let ([only], Some(one)) = (items, one) {
        each(to, only);
        to.push(one);
        return;
    }
    for batch in items.chunks(BATCH) {
        to.push(MARK);
        batch.iter().for_each(|item| each(to, item));
        to.push(many);
    }
}

fn tuple(to: &mut Vec<u8>, items: &[Value]) {
    let code = match items.len() {
        // Python memoizes no empty tuple.
        0 => return to.push(EMPTY_TUPLE),
        1 => TUPLE1,
        2 => TUPLE2,
        3 => TUPLE3,
        _ => {
            to.push(MARK);
            TUPLE
        }
    };
    items.iter().for_each(|item| put(to, item));
    to.extend([code, MEMOIZE]);
}

/// An integer, with the shortest opcode.
fn int(to: &mut Vec<u8>, value: i64) {
    if let Ok(byte) = u8::try_from(value) {
        to.extend([BININT1, byte]);
    } else if let Ok(short) = u16::try_from(value) {
        to.push(BININT2);
        to.extend(short.to_le_bytes());
    } else if let Ok(int) = i32::try_from(value) {
        to.push(BININT);
        to.extend(int.to_le_bytes());
    } else {
        // Without the upper bytes, which only repeat the sign.
        let bytes = value.to_le_bytes();
        let sign = if value < 0 { 0xff } else { 0 };
        let repeats = |at: &usize| bytes[*at] == sign && (bytes[*at - 1] >= 0x80) == (value < 0);
        let drop = (1..bytes.len()).rev().take_while(repeats).count();
        long(to, &bytes[..bytes.len() - drop]);
    }
}

fn long(to: &mut Vec<u8>, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length) => to.extend([LONG1, length]),
        Err(_) => {
            to.push(LONG4);
            to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    to.extend(bytes);
}

/// Writes a float of 64 bits.
fn float(to: &mut Vec<u8>, value: f64) {
    to.push(BINFLOAT);
    to.extend(value.to_be_bytes());
}

fn text(to: &mut Vec<u8>, value: &str) {
    counted(to, (SHORT_BINUNICODE, BINUNICODE, BINUNICODE8), value.as_bytes());
    to.push(MEMOIZE);
}

fn counted(to: &mut Vec<u8>, (short, middle, long): (u8, u8, u8), bytes: &[u8]) {
    if let Ok(length) = u8::try_from(bytes.len()) {
        to.extend([short, length]);
    } else if let Ok(length) = u32::try_from(bytes.len()) {
        to.push(middle);
        to.extend(length.to_le_bytes());
    } else {
        to.push(long);
        to.extend((bytes.len() as u64).to_le_bytes());
    }
    to.extend(bytes);
}
