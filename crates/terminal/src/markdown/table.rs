//! Lays out tables: columns are as wide as their content, or narrower if the screen requires it.

use super::{FAINT, RESET, STRONG};
use crate::layout::{fit, width, wrap_styled};
use pulldown_cmark::Alignment;

/// Minimum readable width of a column.
const NARROWEST: usize = 3;

/// A table during parsing.
pub(super) struct TableBuilder {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl TableBuilder {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn push(&mut self, cell: String) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// Renders the table in at most `columns`. If even the narrowest columns do not fit, writes each cell on a separate line.
    pub(super) fn lines(self, columns: usize) -> Vec<String> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        // Each cell has a blank on both sides and a bar before it; another bar ends the row.
        let frame = 3 * count + 1;
        if count == 0 || columns < frame + NARROWEST * count {
            return self.rows.into_iter().flatten().flat_map(|cell| wrap_styled(&cell, columns)).collect();
        }
        let wide = self.widths(count, columns - frame);
        let rule = |left: &str, middle: &str, right: &str| {
            let parts: Vec<String> = wide.iter().map(|wide| "─".repeat(wide + 2)).collect();
            format!("{FAINT}{left}{}{right}{RESET}", parts.join(middle))
        };
        let mut lines = vec![rule("┌", "┬", "┐")];
        for (index, row) in self.rows.iter().enumerate() {
            let style = if index == 0 { STRONG } else { "" };
            lines.extend(self.row(row, &wide, style));
            if index == 0 {
                lines.push(rule("├", "┼", "┤"));
            }
        }
        lines.push(rule("└", "┴", "┘"));
        lines
    }

    /// Returns the width of each column: that of its content, reduced from the widest column down until all fit.
    fn widths(&self, count: usize, room: usize) -> Vec<usize> {
        let needs = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max();
        let mut wide: Vec<usize> = (0..count).map(|at| needs(at).unwrap_or(0).max(1)).collect();
        let mut over = wide.iter().sum::<usize>().saturating_sub(room);
        while over > 0 {
            let widest = wide.iter().copied().max().unwrap_or(0);
            let next = wide.iter().copied().filter(|other| *other < widest).max().unwrap_or(0).max(NARROWEST);
            let those: Vec<usize> = (0..count).filter(|at| wide[*at] == widest).collect();
            let each = (widest - next).min(over.div_ceil(those.len())).max(1);
            for at in those {
                let by = each.min(over).min(wide[at] - 1);
                wide[at] -= by;
                over -= by;
            }
        }
        wide
    }

    fn row(&self, row: &[String], wide: &[usize], style: &str) -> Vec<String> {
        let cells: Vec<Vec<String>> = wide
            .iter()
            .enumerate()
            .map(|(at, wide)| wrap_styled(&format!("{style}{}", row.get(at).map_or("", String::as_str)), *wide))
            .collect();
        let high = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |index: usize| {
            let shown = cells.iter().zip(wide).enumerate().map(|(at, (lines, wide))| {
                let text = lines.get(index).map_or("", String::as_str);
                format!("{FAINT}│{RESET} {} ", self.aligned(text, *wide, at))
            });
            format!("{}{FAINT}│{RESET}", shown.collect::<String>())
        };
        (0..high).map(line).collect()
    }

    fn aligned(&self, text: &str, wide: usize, at: usize) -> String {
        let free = wide.saturating_sub(width(text));
        let before = match self.alignments.get(at) {
            Some(Alignment::Right) => free,
            Some(Alignment::Center) => free / 2,
            _ => 0,
        };
        fit(&format!("{}{text}", " ".repeat(before)), wide)
    }
}
