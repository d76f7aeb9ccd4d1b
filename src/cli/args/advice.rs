//! Advice on a wrong command line, where the parser's own says nothing or the wrong thing.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Words of other tools: behind which command, the word, and what it is called here.
const ELSEWHERE: [(&str, &str, &str); 14] = [
    ("taskvisor", "cancel", "taskvisor job cancel JID"),
    ("taskvisor", "kill", "taskvisor job cancel JID"),
    ("taskvisor", "logs", "taskvisor job logs JID"),
    ("taskvisor", "tail", "taskvisor job logs -f JID"),
    ("taskvisor", "list", "taskvisor job list"),
    ("taskvisor", "ps", "taskvisor status"),
    ("taskvisor", "restart", "taskvisor reload, or recycle"),
    ("taskvisor", "metrics", "GET /metrics of the API"),
    ("taskvisor", "version", "taskvisor --version"),
    ("job", "kill", "taskvisor job cancel JID"),
    ("job", "delete", "taskvisor job discard JID"),
    ("job", "remove", "taskvisor job discard JID"),
    ("queue", "purge", "taskvisor job cancel --queue QUEUE"),
    ("queue", "empty", "taskvisor job cancel --queue QUEUE"),
];

/// The error with better advice, if there is any.
pub(super) fn advised(typed: &[OsString], mut error: Error) -> Error {
    let words: Vec<&str> = typed.iter().filter_map(|word| word.to_str()).collect();
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(named)) => Some(named.clone()),
        Some(_) | None => None,
    };
    let tip = if error.kind() == ErrorKind::InvalidSubcommand {
        named(ContextKind::InvalidSubcommand).and_then(|word| known_as(&words, &word))
    } else if error.kind() == ErrorKind::UnknownArgument {
        named(ContextKind::InvalidArg).and_then(|arg| instead(&words, &arg))
    } else {
        return in_plain_words(error);
    };
    if let Some(tip) = tip {
        // Ours knows what was meant; clap's goes by the spelling alone.
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Says of a value that is no number that it is none.
fn in_plain_words(error: Error) -> Error {
    let is_no_number = |why: &ParseIntError| *why.kind() == IntErrorKind::InvalidDigit;
    let of_number =
        error.source().and_then(|why| why.downcast_ref::<ParseIntError>()).is_some_and(is_no_number);
    match (error.get(ContextKind::InvalidValue), error.get(ContextKind::InvalidArg)) {
        (Some(ContextValue::String(value)), Some(ContextValue::String(arg))) if of_number => {
            let what = format!(
                "invalid value '{value}' for '{arg}': it is no whole number\n\nFor more information, try '--help'.\n"
            );
            Error::raw(ErrorKind::ValueValidation, what)
        }
        _ => error,
    }
}

/// What a command of another tool is called here.
fn known_as(words: &[&str], word: &str) -> Option<String> {
    let at = words.iter().position(|typed| *typed == word)?;
    let before =
        words[..at].iter().rev().find(|before| ["job", "queue"].contains(before)).unwrap_or(&"taskvisor");
    let found = ELSEWHERE.iter().find(|(behind, theirs, _)| behind == before && *theirs == word);
    found.map(|(_, _, ours)| format!("here that is: {ours}"))
}

/// What to type for an argument that there is not.
fn instead(words: &[&str], arg: &str) -> Option<String> {
    if arg == "--group" && words.get(1) == Some(&"failed") {
        return Some("a group is named without a flag: taskvisor failed GROUP".into());
    }
    let is_negative =
        arg.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    // clap takes a negative number for a flag, so its message speaks of an unknown one.
    let at = words.iter().position(|word| is_negative && word.starts_with(arg))?;
    let flag = words.get(at.checked_sub(1)?).filter(|flag| flag.starts_with('-'))?;
    Some(format!("the value of {flag} cannot be negative"))
}
