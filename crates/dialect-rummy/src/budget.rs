//! Computes a message's budget, and demotes entries when the message exceeds it.
//!
//! Tokens are counted for the assembled message, never for a stored entry. The ceiling is a share of the model's context; a
//! message above the ceiling is never sent. Demotion changes the visibility of an entry, but not its state.

use crate::entry::Visibility;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Settings of the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// `RUMMY_BUDGET_CEILING`, in thousandths, so that the same context has the same ceiling on every machine.
    pub ceiling_per_mille: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { ceiling_per_mille: 900 }
    }
}

impl Limits {
    /// Returns the maximum number of tokens of a message.
    pub fn ceiling(&self, context_size: i64) -> i64 {
        context_size.saturating_mul(i64::from(self.ceiling_per_mille)) / 1000
    }
}

/// A row of a message, with its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Scheme; `file` for bare paths.
    pub scheme: String,
    /// Visibility of the entry.
    pub visibility: Visibility,
    /// Number of tokens if the entry is visible.
    pub visible_tokens: i64,
    /// Number of tokens if the entry is summarized.
    pub summarized_tokens: i64,
}

impl Cost {
    /// Returns the number of tokens that demoting the row frees, or promoting it costs: the only number of a row that the model
    /// sees.
    pub fn premium(&self) -> i64 {
        self.visible_tokens - self.summarized_tokens
    }
}

/// The token counts of one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Maximum number of tokens of the message.
    pub ceiling: i64,
    /// Tokens of all rows if they were all summarized.
    pub floor: i64,
    /// Additional tokens of the visible rows.
    pub premium: i64,
    /// Tokens of the system message.
    pub system: i64,
    /// For each scheme with visible rows: the scheme, the number of visible rows, and their premium. Sorted by descending
    /// premium, then by name.
    pub schemes: Vec<(String, usize, i64)>,
    /// Number of visible rows.
    pub visible: usize,
    /// Number of summarized rows.
    pub summarized: usize,
    /// Tokens of summarized rows.
    pub summarized_tokens: i64,
}

impl Numbers {
    /// Sums up the rows of a message.
    pub fn of(rows: &[Cost], system: i64, context_size: i64, limits: Limits) -> Self {
        let mut numbers = Self { ceiling: limits.ceiling(context_size), system, ..Self::default() };
        let mut schemes: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
        for row in rows {
            numbers.floor += row.summarized_tokens;
            match row.visibility {
                Visibility::Visible => {
                    numbers.visible += 1;
                    numbers.premium += row.premium();
                    let scheme = schemes.entry(&row.scheme).or_default();
                    *scheme = (scheme.0 + 1, scheme.1 + row.premium());
                }
                Visibility::Summarized => {
                    numbers.summarized += 1;
                    numbers.summarized_tokens += row.summarized_tokens;
                }
                Visibility::Archived => numbers.floor -= row.summarized_tokens,
            }
        }
        numbers.schemes = schemes.into_iter().map(|(name, (count, tokens))| (name.to_owned(), count, tokens)).collect();
        numbers.schemes.sort_by_key(|(_, _, tokens)| std::cmp::Reverse(*tokens));
        numbers
    }

    /// Returns the number of tokens of the message.
    pub fn usage(&self) -> i64 {
        self.floor + self.premium + self.system
    }

    /// Returns the number of tokens left below the ceiling.
    pub fn free(&self) -> i64 {
        (self.ceiling - self.usage()).max(0)
    }

    /// Returns the table that the model reads.
    pub fn render(&self) -> String {
        let percent =
            |tokens: i64| if self.ceiling > 0 { (tokens * 200 + self.ceiling) / (self.ceiling * 2) } else { 0 };
        let (usage, free) = (self.usage(), self.free());
        let mut out = format!("<budget tokenUsage=\"{usage}\" tokensFree=\"{free}\">\n");
        out.push_str("| scheme | visible | tokens | % |\n|---|---|---|---|\n");
        for (scheme, count, tokens) in &self.schemes {
            let _ = writeln!(out, "| {scheme} | {count} | {tokens} | {} |", percent(*tokens));
        }
        let _ = write!(
            out,
            "\nSummarized: {} entries, {} tokens ({}% of budget).\nSystem: {} tokens ({}% of budget).\n\
             Total: {} visible + {} summarized entries; tokenUsage {usage} / ceiling {}. {free} tokens free.\n</budget>",
            self.summarized,
            self.summarized_tokens,
            percent(self.summarized_tokens),
            self.system,
            percent(self.system),
            self.visible,
            self.summarized,
            self.ceiling,
        );
        out
    }
}

/// The action before a request to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeDispatch {
    /// The message fits.
    Send,
    /// The message does not fit in the first turn of a loop: the prompt is summarized, and the message is measured again.
    DemotePrompt {
        /// Tokens above the ceiling.
        overflow: i64,
    },
    /// The message does not fit: the turn ends with status 413.
    Refuse {
        /// Tokens above the ceiling.
        overflow: i64,
    },
}

/// Decides about a message by the number of tokens that the provider reported last, or else by the measured number.
pub fn before_dispatch(
    measured: i64,
    last_prompt_tokens: i64,
    context_size: i64,
    is_first_of_loop: bool,
    was_demoted: bool,
    limits: Limits,
) -> BeforeDispatch {
    if context_size <= 0 {
        return BeforeDispatch::Send;
    }
    let tokens = if last_prompt_tokens > 0 && !was_demoted { last_prompt_tokens } else { measured };
    let overflow = tokens - limits.ceiling(context_size);
    match overflow {
        ..=0 => BeforeDispatch::Send,
        _ if is_first_of_loop && !was_demoted => BeforeDispatch::DemotePrompt { overflow },
        _ => BeforeDispatch::Refuse { overflow },
    }
}

/// The action after all commands of a turn were dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDispatch {
    /// The next message will fit.
    Keep,
    /// The visible entries of this turn are summarized, including the prompt.
    DemoteTurn {
        /// Tokens above the ceiling.
        overflow: i64,
    },
    /// The turn has no visible entries, so all visible entries of the run are summarized.
    DemoteRun {
        /// Tokens above the ceiling.
        overflow: i64,
    },
}

/// Decides by the predicted size of the next message: the last message and the tokens that this turn added.
pub fn after_dispatch(
    last_context_tokens: i64,
    added_tokens: i64,
    visible_of_turn: usize,
    context_size: i64,
    limits: Limits,
) -> AfterDispatch {
    let overflow = last_context_tokens + added_tokens - limits.ceiling(context_size);
    match (context_size, overflow, visible_of_turn) {
        (..=0, _, _) | (_, ..=0, _) => AfterDispatch::Keep,
        (_, _, 0) => AfterDispatch::DemoteRun { overflow },
        _ => AfterDispatch::DemoteTurn { overflow },
    }
}

/// Returns the text of the error that the model reads after a demotion.
pub fn overflow_message(overflow: i64, demoted: usize, tokens: i64, ceiling: i64) -> String {
    format!(
        "Token budget overflow: {overflow} tokens above the ceiling of {ceiling}. {demoted} entries of {tokens} tokens were \
         summarized to fit. Add up the tokens=\"N\" of what you promote and write before you send it: one turn may add at most \
         50% of the tokens that are free."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(scheme: &str, visibility: Visibility, visible: i64, summarized: i64) -> Cost {
        Cost { scheme: scheme.to_owned(), visibility, visible_tokens: visible, summarized_tokens: summarized }
    }

    /// Rows have a floor and a premium: rummy's specification, "Token Accounting".
    #[test]
    fn a_message_has_a_floor_and_a_premium() {
        let rows = [
            cost("file", Visibility::Visible, 300, 20),
            cost("known", Visibility::Visible, 50, 10),
            cost("file", Visibility::Summarized, 400, 30),
            cost("file", Visibility::Archived, 400, 30),
        ];
        let numbers = Numbers::of(&rows, 100, 1000, Limits::default());
        assert_eq!((numbers.ceiling, numbers.floor, numbers.premium), (900, 60, 320));
        assert_eq!((numbers.usage(), numbers.free()), (480, 420));
        assert_eq!(
            numbers.render(),
            "<budget tokenUsage=\"480\" tokensFree=\"420\">\n| scheme | visible | tokens | % |\n|---|---|---|---|\n\
             | file | 1 | 280 | 31 |\n| known | 1 | 40 | 4 |\n\nSummarized: 1 entries, 30 tokens (3% of budget).\n\
             System: 100 tokens (11% of budget).\nTotal: 2 visible + 1 summarized entries; tokenUsage 480 / ceiling 900. \
             420 tokens free.\n</budget>"
        );
    }

    /// Checks the budget before the request: rummy's specification, "Budget Enforcement".
    #[test]
    fn a_message_above_the_ceiling_is_not_sent() {
        let decide =
            |measured, last, first, demoted| before_dispatch(measured, last, 1000, first, demoted, Limits::default());
        assert_eq!(decide(900, 0, true, false), BeforeDispatch::Send);
        assert_eq!(decide(901, 0, true, false), BeforeDispatch::DemotePrompt { overflow: 1 });
        assert_eq!(decide(901, 0, true, true), BeforeDispatch::Refuse { overflow: 1 });
        assert_eq!(decide(901, 0, false, false), BeforeDispatch::Refuse { overflow: 1 });
        assert_eq!(decide(5000, 800, false, false), BeforeDispatch::Send, "the provider's number is the truth");
        assert_eq!(before_dispatch(5000, 0, 0, true, false, Limits::default()), BeforeDispatch::Send);
    }

    /// Checks the budget after the dispatch: rummy's specification, "Budget Enforcement".
    #[test]
    fn a_turn_that_adds_too_much_is_demoted() {
        let decide = |last, added, visible| after_dispatch(last, added, visible, 1000, Limits::default());
        assert_eq!(decide(500, 400, 3), AfterDispatch::Keep);
        assert_eq!(decide(500, 500, 3), AfterDispatch::DemoteTurn { overflow: 100 });
        assert_eq!(decide(950, 0, 0), AfterDispatch::DemoteRun { overflow: 50 });
    }
}
