//! Creates the diff of an edit for the user and extensions: numbered lines with context, and a unified patch.

use pijs_protocol::guard;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of steps of a diff, above which the change is reported as a single block: Myers' algorithm needs about (lines
/// of both texts) x (changed lines) steps. The limit counts steps and not time, so that an edit reports the same diff on every
/// machine.
const MAX_STEPS: usize = 500_000_000;

/// Number of lines of context before and after a change.
const CONTEXT: usize = 4;

/// Consecutive lines with the same tag: kept, removed or added.
struct DiffPart<'a> {
    tag: ChangeTag,
    lines: Vec<&'a str>,
}

/// Returns `{diff, patch, firstChangedLine}`. `replaced` is the number of lines in the replacements, old and new.
pub(super) fn details(path: &str, before: &str, after: &str, replaced: usize) -> Value {
    let mut changes = TextDiff::configure();
    if steps(before, after, replaced) > MAX_STEPS && guard!(EditDiff) {
        // The deadline is in the past, so that the library gives up the search for the shortest diff at once.
        let long_ago = Instant::now().checked_sub(Duration::from_secs(1));
        changes.deadline(long_ago.unwrap_or_else(Instant::now));
    }
    let changes = changes.diff_lines(before, after);
    let mut parts: Vec<DiffPart<'_>> = Vec::new();
    for change in changes.iter_all_changes() {
        match parts.last_mut() {
            Some(part) if part.tag == change.tag() => part.lines.push(change.value()),
            _ => parts.push(DiffPart { tag: change.tag(), lines: vec![change.value()] }),
        }
    }
    let width = before.split('\n').count().max(after.split('\n').count()).to_string().len();
    let (diff, first) = numbered(&parts, width);
    let mut details = json!({"diff": diff, "patch": patch(path, &changes)});
    if let Some(first) = first {
        details["firstChangedLine"] = first.into();
    }
    details
}

/// Formats changed lines with context. Added lines have their number in the new text, all others their number in the old one.
fn numbered(parts: &[DiffPart<'_>], width: usize) -> (String, Option<usize>) {
    let mut out: Vec<String> = Vec::new();
    let (mut old, mut new, mut first) = (1, 1, None);
    let is_change = |at: usize| parts.get(at).is_some_and(|part| part.tag != ChangeTag::Equal);
    for (at, part) in parts.iter().enumerate() {
        let count = part.lines.len();
        let line = |sign: char, number: usize, at: usize| {
            format!("{sign}{number:>width$} {}", part.lines[at].trim_end_matches('\n'))
        };
        match part.tag {
            ChangeTag::Insert => {
                first.get_or_insert(new);
                out.extend((0..count).map(|at| line('+', new + at, at)));
                new += count;
            }
            ChangeTag::Delete => {
                first.get_or_insert(new);
                out.extend((0..count).map(|at| line('-', old + at, at)));
                old += count;
            }
            ChangeTag::Equal => {
                let head = if at > 0 { CONTEXT.min(count) } else { 0 };
                let tail = if is_change(at + 1) { CONTEXT.min(count) } else { 0 };
                if head + tail >= count && head + tail > 0 {
                    out.extend((0..count).map(|at| line(' ', old + at, at)));
                } else if head + tail > 0 {
                    out.extend((0..head).map(|at| line(' ', old + at, at)));
                    out.push(format!(" {:width$} ...", ""));
                    out.extend((count - tail..count).map(|at| line(' ', old + at, at)));
                }
                old += count;
                new += count;
            }
        }
    }
    (out.join("\n"), first)
}

/// Returns a unified patch.
fn patch(path: &str, changes: &TextDiff<'_, '_, '_, str>) -> String {
    let mut text = format!("--- {path}\n+++ {path}\n");
    for group in changes.grouped_ops(CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |start: usize, end: usize| {
            let count = end - start;
            // For an empty range, a unified patch names the line before it.
            format!("{},{count}", if count == 0 { start } else { start + 1 })
        };
        let old = range(first.old_range().start, last.old_range().end);
        let new = range(first.new_range().start, last.new_range().end);
        text.push_str(&format!("@@ -{old} +{new} @@\n"));
        for op in &group {
            for change in changes.iter_changes(op) {
                let sign = match change.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                };
                text.push_str(&format!("{sign}{}\n", change.value().trim_end_matches('\n')));
                if !change.value().ends_with('\n') {
                    text.push_str("\\ No newline at end of file\n");
                }
            }
        }
    }
    text
}

/// Returns an upper bound for the steps of the shortest diff. It is based on the lines that occur more often in one text than in
/// the other, and on the lines of the replacements, which may have moved.
fn steps(before: &str, after: &str, replaced: usize) -> usize {
    let mut more: HashMap<&str, isize> = HashMap::new();
    let (mut lines, mut changed) = (0, replaced);
    for (text, one) in [(before, 1), (after, -1)] {
        for line in text.lines() {
            *more.entry(line).or_default() += one;
            lines += 1;
        }
    }
    changed += more.values().map(|count| count.unsigned_abs()).sum::<usize>();
    changed.saturating_mul(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_beyond_the_step_limit_is_one_block() {
        // Every second line is unchanged, which only the shortest diff would show.
        let lines = |begin: &str| (0..60_000).map(|at| format!("{begin}{at}\nsame\n")).collect::<String>();
        let (before, after) = (lines("a"), lines("b"));
        assert!(steps(&before, &after, 0) > MAX_STEPS);
        let changed = details("f", &before, &after, 0);
        assert_eq!(changed["firstChangedLine"], 1);
        assert!(changed["patch"].as_str().expect("a text").contains("\n-same\n"), "what stayed is not looked for");
    }

    #[test]
    fn a_few_changes_of_a_long_text_are_separate() {
        let text = |begin: &str| -> String {
            (0..60_000).map(|at| format!("{}{at}\n", if at % 20_000 == 9 { begin } else { "" })).collect()
        };
        let changed = details("f", &text("a"), &text("b"), 6);
        assert_eq!(changed["firstChangedLine"], 10);
        assert_eq!(changed["patch"].as_str().expect("a text").matches("@@ -").count(), 3);
    }
}
