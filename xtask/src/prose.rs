//! Counts patterns of prose that hide what an item is or does, and holds their number down.
//!
//! - **Comments.** A comment or a paragraph of one that begins with a word of [`OPENINGS`], or that consists of one word.
//! - **Subjects.** A commit whose subject has more than [`LONGEST_SUBJECT`] characters. Without a history none is counted.
//!
//! Both numbers may only fall: lower [`MAX_COMMENTS`] after a change that removes some.

use crate::sources::files;
use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Most comments of the workspace with one of the patterns.
pub const MAX_COMMENTS: usize = 18;

/// Most commits with a long subject. Their number is that of the history before the rule.
pub const MAX_SUBJECTS: usize = 361;

/// Characters of the longest subject of a commit, as `git log --oneline` shows it on 80 columns.
pub const LONGEST_SUBJECT: usize = 72;

/// First words of a clause without a subject.
pub const OPENINGS: &[&str] = &["What", "Who", "Whose", "Where", "Which", "The same"];

/// Folders with sources of the workspace. Files of `fixtures` are inputs of tests.
const FOLDERS: [&str; 5] = ["crates", "extc", "fuzz", "tests", "xtask"];

/// Returns the numbers that have grown.
pub fn violations(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let mut comments = 0;
    for (folder, extension) in FOLDERS.iter().flat_map(|folder| ["rs", "ts"].map(|extension| (folder, extension))) {
        for file in files(&root.join(folder), extension)? {
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            comments += headless(&text).len();
        }
    }
    if comments > MAX_COMMENTS {
        let openings = OPENINGS.join(", ");
        let what = format!(
            "{comments} begin with {openings} or have one word, at most {MAX_COMMENTS} are allowed: \
             begin with the item, in the third person"
        );
        found.push(violation("comments", what));
    }
    let subjects = subjects(root).iter().filter(|subject| subject.chars().count() > LONGEST_SUBJECT).count();
    if subjects > MAX_SUBJECTS {
        let what = format!(
            "{subjects} have more than {LONGEST_SUBJECT} characters, at most {MAX_SUBJECTS} are allowed: \
             shorten the subject, and write a body"
        );
        found.push(violation("commit subjects", what));
    }
    Ok(found)
}

/// Returns the numbers of the lines at which a comment with one of the patterns begins.
pub fn headless(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut before = None;
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let comment = comment(line);
        let begins = before.is_none_or(str::is_empty);
        let ends = lines.get(at + 1).and_then(|next| self::comment(next)).is_none_or(str::is_empty);
        if comment.is_some_and(|words| begins && (opens(words) || ends && is_one_word(words))) {
            found.push(at + 1);
        }
        before = comment;
    }
    found
}

/// Returns the text of a line that is a comment, or a line of one.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["///", "//!", "//", "/**", "* "].iter().find_map(|mark| line.strip_prefix(mark));
    let text = text.or_else(|| (line == "*").then_some(""))?;
    Some(text.trim_end_matches("*/").trim())
}

fn opens(words: &str) -> bool {
    OPENINGS.iter().any(|opening| words.strip_prefix(opening).is_some_and(|rest| rest.starts_with(' ')))
}

fn is_one_word(words: &str) -> bool {
    words.strip_suffix('.').is_some_and(|word| !word.is_empty() && word.chars().all(char::is_alphabetic))
}

/// Returns the subjects of all commits; none where `git` is missing or the folder is no clone.
fn subjects(root: &Path) -> Vec<String> {
    let log = Command::new("git").arg("-C").arg(root).args(["log", "--no-merges", "--format=%s"]).output();
    let text = log.ok().filter(|log| log.status.success()).map(|log| log.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}
