//! Counts patterns of prose that hide the meaning of an item, and limits their number.
//!
//! - **Comments.** A comment, or a paragraph of a comment, that begins with a word of [`OPENINGS`] or consists of one word.
//! - **Subjects.** A commit whose subject has more than [`LONGEST_SUBJECT`] characters. Without a Git history none are counted.
//!
//! Both numbers may only decrease: lower [`MAX_COMMENTS`] after a change that removes some.

use crate::sources::files;
use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Maximum number of comments in the workspace with one of the patterns.
pub const MAX_COMMENTS: usize = 18;

/// Maximum number of commits with a long subject: those made before the rule existed.
pub const MAX_SUBJECTS: usize = 361;

/// Maximum length of a commit's subject in characters; `git log --oneline` fits it into 80 columns.
pub const LONGEST_SUBJECT: usize = 72;

/// Words that open a clause without a subject.
pub const OPENINGS: &[&str] = &["What", "Who", "Whose", "Where", "Which", "The same"];

/// Folders with sources of the workspace. Files of `fixtures` are inputs of tests.
const FOLDERS: [&str; 5] = ["crates", "extc", "fuzz", "tests", "xtask"];

/// Reports the counts that exceed their maximum.
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
            "{comments} begin with {openings} or have one word (the limit is {MAX_COMMENTS}): \
             begin with the item, in the third person"
        );
        found.push(violation("comments", what));
    }
    let subjects = subjects(root).iter().filter(|subject| subject.chars().count() > LONGEST_SUBJECT).count();
    if subjects > MAX_SUBJECTS {
        let what = format!(
            "{subjects} have more than {LONGEST_SUBJECT} characters (the limit is {MAX_SUBJECTS} subjects): \
             shorten the subject, and write a body"
        );
        found.push(violation("commit subjects", what));
    }
    Ok(found)
}

/// Returns the line numbers of comments with one of the patterns.
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

/// Returns the comment text of a line, if the line is part of a comment.
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

/// Returns the subjects of all commits; empty if `git` is missing or the folder is not a clone.
fn subjects(root: &Path) -> Vec<String> {
    let log = Command::new("git").arg("-C").arg(root).args(["log", "--no-merges", "--format=%s"]).output();
    let text = log.ok().filter(|log| log.status.success()).map(|log| log.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}
