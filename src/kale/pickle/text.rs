//! The values that protocol 0 writes as lines of text.

use super::Value;

/// Limit of the digits of an integer, as in Python's own limit: converting takes quadratic time.
const DIGITS_MAX: usize = 4_300;

/// `I`: `01` and `00` are `True` and `False`.
pub(super) fn int(line: &str) -> Option<Value> {
    match line {
        "00" => Some(Value::Bool(false)),
        "01" => Some(Value::Bool(true)),
        _ => long(line),
    }
}

/// `L`: decimal digits, perhaps with an `L` at the end.
pub(super) fn long(line: &str) -> Option<Value> {
    let digits = line.strip_suffix('L').unwrap_or(line);
    if let Ok(value) = digits.parse::<i64>() {
        return Some(Value::Int(value));
    }
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut bytes = vec![0_u8];
    for digit in digits.bytes() {
        // Each digit multiplies what there is by ten.
        let mut carry = u16::from(digit - b'0');
        for byte in &mut bytes {
            let sum = u16::from(*byte) * 10 + carry;
            [*byte, _] = sum.to_le_bytes();
            carry = sum >> 8;
        }
        if carry > 0 {
            bytes.push(carry.to_le_bytes()[0]);
        }
    }
    // A zero on top leaves the highest bit free for the sign.
    bytes.push(0);
    if negative {
        negate(&mut bytes);
    }
    Some(integer(&bytes))
}

/// Negates a number in place: two's complement, the lowest byte first.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes {
        let (sum, more) = (!*byte).overflowing_add(u8::from(carry));
        (*byte, carry) = (sum, more);
    }
}

/// The integer of these bytes in two's complement, the lowest first. No bytes mean 0.
pub(super) fn integer(bytes: &[u8]) -> Value {
    let mut bytes = bytes;
    // A last byte that only repeats the sign can be removed.
    while let [rest @ .., before, last] = bytes {
        if (*last == 0 && *before < 0x80) || (*last == 0xff && *before >= 0x80) {
            bytes = &bytes[..=rest.len()];
        } else {
            break;
        }
    }
    if bytes.len() > 8 {
        return Value::Big(bytes.to_vec());
    }
    let sign = if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 };
    let mut whole = [sign; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(whole))
}

/// The stand-in for a text with half of a surrogate pair, which only Python can hold.
pub(super) fn unknown_text() -> Value {
    Value::Object("builtins.str".into())
}

/// `V`: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn raw_unicode(line: &[u8]) -> Option<Value> {
    let mut text = String::new();
    let mut rest = line;
    while let Some((first, tail)) = rest.split_first() {
        // Python's raw-unicode-escape has no other escapes.
        let digits = match (first, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(char::from(*first));
                rest = tail;
                continue;
            }
        };
        let hex = str::from_utf8(tail.get(1..=digits)?).ok()?;
        let Some(char) = char::from_u32(u32::from_str_radix(hex, 16).ok()?) else {
            return Some(unknown_text());
        };
        text.push(char);
        rest = tail.get(digits + 1..)?;
    }
    Some(Value::Str(text))
}

/// `S`: a string of Python 2 as `repr` shows it. Python 3 takes only ASCII for one.
pub(super) fn quoted(line: &[u8]) -> Option<String> {
    let text = str::from_utf8(line).ok()?.trim_end();
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut plain = String::new();
    let mut rest = inner.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        plain.push(match rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'x' => {
                let hex: String = rest.by_ref().take(2).collect();
                char::from(u8::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 2)?)
            }
            same @ ('\\' | '\'' | '"') => same,
            _ => return None,
        });
    }
    plain.is_ascii().then_some(plain)
}
