//! Splits a command in one string into words as a shell does, and nothing more.

use std::iter::Peekable;
use std::str::Chars;

/// Splits at blanks; quotes and backslashes work as in a shell. Anything else with a meaning to a shell is refused.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|letter| letter.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            return Ok(words);
        }
        words.push(word(&mut rest).map_err(|why| format!("'{text}' is no command: {why}"))?);
    }
}

fn word(rest: &mut Peekable<Chars>) -> Result<String, String> {
    let mut word = String::new();
    while let Some(letter) = rest.next_if(|letter| !letter.is_whitespace()) {
        match letter {
            '\'' => single_quoted(rest, &mut word)?,
            '"' => double_quoted(rest, &mut word)?,
            '\\' => word.push(rest.next().ok_or("it ends with a backslash")?),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' => return Err(no_shell(letter)),
            letter => word.push(letter),
        }
    }
    Ok(word)
}

fn single_quoted(rest: &mut Peekable<Chars>, word: &mut String) -> Result<(), String> {
    loop {
        match rest.next().ok_or("a ' is not closed")? {
            '\'' => return Ok(()),
            letter => word.push(letter),
        }
    }
}

fn double_quoted(rest: &mut Peekable<Chars>, word: &mut String) -> Result<(), String> {
    loop {
        match rest.next().ok_or("a \" is not closed")? {
            '"' => return Ok(()),
            '\\' => match rest.next().ok_or("a \" is not closed")? {
                // Before any other letter a backslash in double quotes stands for itself, as in a shell.
                letter @ ('"' | '\\' | '$' | '`') => word.push(letter),
                letter => word.extend(['\\', letter]),
            },
            letter @ ('$' | '`') => return Err(no_shell(letter)),
            letter => word.push(letter),
        }
    }
}

fn no_shell(letter: char) -> String {
    format!("{letter} means something to a shell, and none reads it; quote it, or write [sh, -c, …]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_like_a_shell_would() {
        for (text, words) in [
            (
                "python3 -m  taskvisor.worker app.tasks\n",
                &["python3", "-m", "taskvisor.worker", "app.tasks"][..],
            ),
            (r#"a 'b c'"d"\ e ''"#, &["a", "b cd e", ""]),
            (r#""x\"y\z" '\'"#, &[r#"x"y\z"#, "\\"]),
            ("'$HOME' \\$x *.gz #a", &["$HOME", "$x", "*.gz", "#a"]),
            (" ", &[]),
        ] {
            assert_eq!(
                split(text).as_deref(),
                Ok(words.iter().map(|w| (*w).to_string()).collect::<Vec<_>>().as_slice())
            );
        }
    }

    #[test]
    fn shell_syntax_is_refused() {
        for text in ["a | b", "cd x && y", "a $HOME", "a \"$x\"", "a 'b", "a \"b", "a \\", "a > b", "`a`"] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}
