//! Names that were probably meant.

/// The known name that was probably meant, or all of them.
pub fn suggestion(typed: &str, known: &[&str]) -> Option<String> {
    let (distance, best) = known.iter().map(|name| (distance(typed, name), name)).min()?;
    // One typing error in a short word, more in a longer one.
    match distance <= 1 + typed.len() / 4 {
        true => Some(format!("did you mean '{best}'?")),
        false => Some(format!("known here: {}", known.join(", "))),
    }
}

/// Number of letters to insert, drop or replace to turn one word into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        // One row is enough: `corner` is the cell to the upper left, which the row has overwritten.
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}
