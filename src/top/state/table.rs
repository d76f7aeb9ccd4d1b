//! The lines of a tab, as cells.

use crate::screen::grid::{Style, width};
use crate::thing::Thing;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, above it.
    pub head: &'static str,
    /// Whether its cells end at the right.
    pub is_right: bool,
    /// Number of columns of the screen that it keeps at least, if it has words.
    pub least: usize,
    /// Whether its cells have the colour of the line.
    pub is_tinted: bool,
}

impl Column {
    /// A column of words.
    pub const fn words(head: &'static str, least: usize) -> Column {
        Column { head, is_right: false, least, is_tinted: false }
    }

    /// A column of figures, which are never cut.
    pub const fn figures(head: &'static str, least: usize) -> Column {
        Column { head, is_right: true, least, is_tinted: false }
    }

    /// A column of states.
    pub const fn states(head: &'static str, least: usize) -> Column {
        Column { head, is_right: false, least, is_tinted: true }
    }
}

/// A line of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The thing that it stands for.
    pub thing: Thing,
    /// Its cells, one for each column.
    pub cells: Vec<String>,
    /// The colour of its state.
    pub tint: Style,
}

/// The lines of a tab.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its columns, from the left.
    pub columns: &'static [Column],
    /// Its lines, in order.
    pub rows: Vec<Row>,
    /// Number of lines before the filter.
    pub all: usize,
    /// The widest cell of each column, its name included.
    widths: Vec<usize>,
    /// Number of columns of the screen that each keeps: figures are never cut.
    least: Vec<usize>,
}

/// A cell counts as no wider than this.
// One long argument list would otherwise set the width of its column for every line.
const WIDEST: usize = 60;

impl Table {
    /// A table of the lines that have all these words.
    pub fn new(columns: &'static [Column], mut rows: Vec<Row>, words: &[String]) -> Table {
        let all = rows.len();
        if !words.is_empty() {
            rows.retain(|row| has_words(std::slice::from_ref(row), words));
        }
        Table::of(columns, rows, all)
    }

    /// A table of these lines, which are so many of all.
    pub fn of(columns: &'static [Column], rows: Vec<Row>, all: usize) -> Table {
        let mut widest = vec![0; columns.len()];
        for row in &rows {
            for (wide, cell) in widest.iter_mut().zip(&row.cells) {
                *wide = (*wide).max(width(cell).min(WIDEST));
            }
        }
        let each = || columns.iter().zip(&widest);
        // A number without its last digits says nothing; cut words can still be told apart.
        let least = each().map(|(column, wide)| if column.is_right { *wide } else { column.least }).collect();
        let widths = each().map(|(column, wide)| column.head.len().max(*wide)).collect();
        Table { columns, rows, all, widths, least }
    }

    /// The width of each column where there is so much room. The widest give way first, and what is last gets what is left.
    pub fn widths(&self, room: usize) -> Vec<usize> {
        let mut widths = self.widths.clone();
        let gaps = widths.len().saturating_sub(1);
        let room = room.saturating_sub(gaps);
        while widths.iter().sum::<usize>() > room {
            let slack = |(n, wide): &(usize, &usize)| wide.saturating_sub(self.least[*n]);
            match widths.iter().enumerate().max_by_key(slack).filter(|each| slack(each) > 0) {
                Some((widest, _)) => widths[widest] -= 1,
                None => break,
            }
        }
        let used: usize = widths.iter().sum();
        if let Some(last) = widths.last_mut() {
            *last += room.saturating_sub(used);
        }
        widths
    }
}

/// Whether these lines together have all words, in whatever case.
pub fn has_words(rows: &[Row], words: &[String]) -> bool {
    let is_in = |word: &String| {
        rows.iter().flat_map(|row| &row.cells).any(|cell| cell.to_lowercase().contains(word.as_str()))
    };
    words.iter().all(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widest_column_gives_way_first_and_the_last_takes_the_rest() {
        const COLUMNS: [Column; 3] = [Column::words("A", 4), Column::figures("B", 3), Column::words("C", 2)];
        let row = |cells: [&str; 3]| Row {
            thing: Thing::Event(0),
            cells: cells.map(String::from).to_vec(),
            tint: Style::PLAIN,
        };
        let rows = vec![row(["aaaaaaaaaa", "123", "cc"]), row(["a", "1", "cccccc"])];
        let table = Table::new(&COLUMNS, rows.clone(), &[]);
        assert_eq!(table.widths(40), [10, 3, 25]);
        assert_eq!(table.widths(17), [7, 3, 5]);
        assert_eq!(table.widths(5), [4, 3, 2], "no less than is of use");
        let found = Table::new(&COLUMNS, rows, &["cccc".into()]);
        assert_eq!((found.rows.len(), found.all), (1, 2));
    }
}
