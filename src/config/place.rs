//! Positions in the file: the parser gives only those of values that it could not read.

/// A place in a text: line and column, from 1.
pub(super) type Place = (usize, usize);

/// The file as it was read, to point at errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name to show.
    pub name: String,
    /// The text of the file.
    pub text: String,
}

impl Source {
    /// `FILE:LINE:COLUMN` of a setting of a pool, or else of the pool, or `FILE`.
    pub(super) fn of_pool(&self, index: usize, key: &str) -> String {
        self.of_first(index, &[key])
    }

    /// The same for the first of these keys that the file has.
    fn of_first(&self, index: usize, keys: &[&str]) -> String {
        match place_of_pool(&self.text, index, keys) {
            Some((line, column)) => format!("{}:{line}:{column}", self.name),
            None => self.name.clone(),
        }
    }

    /// The same for a setting by its full name, such as `log.level`, of a pool or of the whole supervisor.
    pub(super) fn of(&self, pool: Option<usize>, name: &str) -> String {
        let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
        if let Some(index) = pool {
            return self.of_first(index, &[key, section]);
        }
        let start = self
            .text
            .lines()
            .position(|line| line.strip_prefix(section).is_some_and(|rest| rest.starts_with(':')));
        match locate(&self.text, key, start.map(|line| (line + 1, 1)), 0) {
            Some((line, column)) => format!("{}:{line}:{column}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The position of a key in a pool. The pool's lines are those from its dash to the next one at the same indentation.
fn place_of_pool(text: &str, index: usize, keys: &[&str]) -> Option<Place> {
    let start = text.lines().position(|line| line.starts_with("pools:"))? + 1;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let ends = |line: &str| line.starts_with(|first: char| !matches!(first, ' ' | '#' | '-'));
    let section: Vec<(usize, &str)> =
        text.lines().enumerate().skip(start).take_while(|(_, line)| !ends(line)).collect();
    let dashes = section.iter().filter(|(_, line)| line.trim_start().starts_with('-'));
    let depth = dashes.clone().map(|(_, line)| indent(line)).next()?;
    let mut items = dashes.filter(|(_, line)| indent(line) == depth).map(|(number, _)| *number);
    let first = items.nth(index)?;
    let next = items.next().unwrap_or(usize::MAX);
    let own = section.iter().filter(|(number, _)| (first..next).contains(number));
    let place_of = |key: &&str| own.clone().find_map(|(number, line)| Some((number + 1, column(line, key)?)));
    let place = keys.iter().filter(|key| !key.is_empty()).find_map(place_of);
    Some(place.unwrap_or((first + 1, depth + 1)))
}

/// The position of a key. The parser points at the map that holds the key; this finds the key, or its repetition.
pub(super) fn locate(text: &str, key: &str, map: Option<Place>, repetition: usize) -> Option<Place> {
    let first = map.map_or(0, |(line, _)| line.saturating_sub(1));
    let found = text.lines().enumerate().skip(first);
    found.filter_map(|(index, line)| Some((index + 1, column(line, key)?))).nth(repetition)
}

/// The column of this key in a line, if the line has it.
fn column(line: &str, key: &str) -> Option<usize> {
    let column = line.find(key)?;
    let before = line[..column].bytes().all(|byte| b" -{,\"'".contains(&byte));
    let after = line[column + key.len()..].trim_start_matches(['"', '\'', ' ']).starts_with(':');
    (before && after).then_some(column + 1)
}

/// The same for a value.
pub(super) fn locate_value(text: &str, value: &str, map: Option<Place>) -> Option<Place> {
    let first = map.map_or(0, |(line, _)| line.saturating_sub(1));
    text.lines().enumerate().skip(first).find_map(|(index, line)| {
        let colon = line.find(':')?;
        let column = colon + line[colon..].find(value)?;
        Some((index + 1, column + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, index: usize, key: &str, expected: &str) {
        let source = Source { name: "t.yaml".into(), text: text.into() };
        assert_eq!(source.of_pool(index, key), expected);
    }

    #[test]
    fn a_setting_of_a_pool_is_found_in_that_pool() {
        let text = "lease: 1m\npools:\n  - name: a\n    queues:\n      - x\n    mode: fork\n\n  # b\n  - name: b\n    mode: fork\nlog:\n";
        check(text, 0, "mode", "t.yaml:6:5");
        check(text, 1, "mode", "t.yaml:10:5");
        check(text, 1, "name", "t.yaml:9:5");
    }

    #[test]
    fn setting_in_flow_style_is_placed_at_its_pool_or_file() {
        check("pools:\n- {name: a, mode: fork}\n- {name: b}\n", 1, "mode", "t.yaml:3:1");
        check("pools: [{name: a}, {name: b}]\n", 1, "mode", "t.yaml");
    }
}
