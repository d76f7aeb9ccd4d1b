//! Data on the command line: reads it, and checks whether it is JSON.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::de::IgnoredAny;

use failure::{Failure, exit};
use model::Bytes;

/// Reads DATA, @FILE or -: gives the bytes, and their name for errors.
pub(super) fn read(data: &OsStr) -> Result<(Vec<u8>, String), Failure> {
    let (read, name) = match data.as_bytes() {
        b"-" => (read_limited(io::stdin().lock(), "stdin"), "the data on stdin".into()),
        [b'@', path @ ..] => {
            let path = OsString::from_vec(path.to_vec());
            let name = path.to_string_lossy().into_owned();
            let failed = |error| Failure::from(error).of(format!("failed to read the data from {name}"));
            let file = std::fs::File::open(&path).map_err(failed)?;
            (read_limited(file, &name), format!("the data in {name}"))
        }
        data => (Ok(data.to_vec()), "the data".into()),
    };
    Ok((read?, name))
}

fn read_limited(from: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    const LONGEST: usize = Bytes::LONGEST;
    let mut data = Vec::new();
    // One more than allowed, so that too much shows without reading all of it.
    let limit = LONGEST as u64 + 1;
    let failed = |error| Failure::from(error).of(format!("failed to read the data from {name}"));
    from.take(limit).read_to_end(&mut data).map_err(failed)?;
    match data.len() > LONGEST {
        true => Err(Failure::new(exit::FAILED, format!("the data in {name} is larger than {LONGEST} bytes"))
            .hint("put the name of a file")),
        false => Ok(data),
    }
}

/// Checks that data is JSON. It goes to the worker unchanged, so its writer should learn of errors here.
pub(super) fn check_json(data: &[u8], name: &str) -> Result<(), Failure> {
    let why = match std::str::from_utf8(data) {
        Ok(text) => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Err(error) => {
            // serde names the place of wrong JSON only, not that of bytes that are no text.
            let before = &data[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            format!("no UTF-8 at line {line} column {column}")
        }
    };
    Err(Failure::new(exit::USAGE, format!("{name} is not JSON: {why}")).hint(
        "a text as JSON has quotes: '\"hello\"'; --raw puts bytes that are not JSON; a command stands behind --",
    ))
}
