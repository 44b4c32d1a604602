//! A table of results, as aligned plain text or Markdown.

use serde::{Deserialize, Serialize};

use crate::text::{display_width, pad_end, pad_start, terminal_safe};

/// Where a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Align {
    /// At the left, for texts.
    Left,
    /// At the right, for numbers.
    Right,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What the column holds, with its unit.
    pub name: String,
    /// Where its cells stand.
    pub align: Align,
}

/// Rows of ready-made cells under named columns.
///
/// ```
/// use regard_report::{Align, Table};
///
/// let mut table = Table::new([("model", Align::Left), ("accuracy", Align::Right)]);
/// table.push(["fc", "61.2"]);
/// table.push(["self-attention", "100.0"]);
/// assert_eq!(
///     table.to_text(),
///     "model           accuracy\n\
///      --------------  --------\n\
///      fc                  61.2\n\
///      self-attention     100.0\n"
/// );
/// assert_eq!(
///     table.to_markdown(),
///     "| model | accuracy |\n\
///      |:---|---:|\n\
///      | fc | 61.2 |\n\
///      | self-attention | 100.0 |\n"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The columns from left to right.
    pub columns: Vec<Column>,
    /// The rows from top to bottom, one cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Align)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(name, align)| Column { name: name.into(), align })
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row at the bottom.
    ///
    /// # Panics
    ///
    /// When `cells` does not hold one cell for each column.
    pub fn push<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.columns.len(), "one cell for each column");
        self.rows.push(cells);
    }

    /// Plain text for a terminal: a line of names, a rule, a line for each row, columns two spaces
    /// apart. Wide letters count two columns. Control characters become U+FFFD.
    pub fn to_text(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let lines: Vec<Vec<String>> = std::iter::once(&names)
            .chain(&self.rows)
            .map(|row| row.iter().map(|cell| terminal_safe(cell)).collect())
            .collect();
        let width = |c: usize| {
            let cells = lines.iter().filter_map(|line| line.get(c));
            cells.map(|cell| display_width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();

        let mut text = String::new();
        for (n, line) in lines.iter().enumerate() {
            self.push_line(&mut text, line, &widths);
            if n == 0 {
                self.push_line(&mut text, &rules, &widths);
            }
        }
        text
    }

    fn push_line(&self, text: &mut String, cells: &[String], widths: &[usize]) {
        let padded: Vec<String> = cells
            .iter()
            .zip(&self.columns)
            .zip(widths)
            .map(|((cell, column), width)| match column.align {
                Align::Left => pad_end(cell, *width),
                Align::Right => pad_start(cell, *width),
            })
            .collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }

    /// A table in GitHub's Markdown. What Markdown or HTML would take for its own (`|`, `\`, `<`,
    /// `&`, line ends) is escaped; emphasis marks are left to the writer of the cells.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        let names = self.columns.iter().map(|column| column.name.as_str());
        push_markdown(&mut text, names);
        for column in &self.columns {
            text.push_str(match column.align {
                Align::Left => "|:---",
                Align::Right => "|---:",
            });
        }
        text.push_str("|\n");
        for row in &self.rows {
            push_markdown(&mut text, row.iter().map(String::as_str));
        }
        text
    }
}

fn push_markdown<'a>(text: &mut String, cells: impl Iterator<Item = &'a str>) {
    for cell in cells {
        text.push_str("| ");
        for c in cell.chars() {
            match c {
                '|' => text.push_str("\\|"),
                '\\' => text.push_str("\\\\"),
                '<' => text.push_str("&lt;"),
                '&' => text.push_str("&amp;"),
                '\n' | '\r' => text.push(' '),
                c => text.push(c),
            }
        }
        text.push(' ');
    }
    text.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_letters() {
        let mut table = Table::new([("词", Align::Right), ("n", Align::Left), ("", Align::Left)]);
        table.push(["我看见", "1", "x"]);
        table.push(["a", "12345", "y"]);
        let text = table.to_text();
        let at: Vec<usize> = text
            .lines()
            .skip(2)
            .map(|line| display_width(line.trim_end_matches(['x', 'y'])))
            .collect();
        assert_eq!(at, [15, 15], "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line));
    }

    #[test]
    fn empty_tables_and_ragged_rows_are_shown() {
        let nothing = Table::new(Vec::<(String, Align)>::new());
        assert_eq!(nothing.to_text(), "\n\n");
        let mut table = Table::new([("a", Align::Left), ("b", Align::Left)]);
        table.rows.push(vec!["only".into()]);
        assert_eq!(table.to_text(), "a     b\n----  -\nonly\n");
    }

    #[test]
    fn markdown_cells_cannot_break_the_table() {
        let mut table = Table::new([("a|b", Align::Left)]);
        table.push(["<s>\n\\|"]);
        assert_eq!(table.to_markdown(), "| a\\|b |\n|:---|\n| &lt;s> \\\\\\| |\n");
    }

    #[test]
    #[should_panic(expected = "one cell for each column")]
    fn a_short_row_is_a_broken_contract() {
        Table::new([("a", Align::Left)]).push(Vec::<String>::new());
    }
}
