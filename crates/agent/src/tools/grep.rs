//! `grep`: lines by pattern. The pattern language is the `regex` crate's: linear in time, without
//! look-around and back-references.

use super::walk::Walk;
use super::{ToolContext, ToolOutput, truncate};
use crate::system::Kind;
use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const LIMIT: usize = 100;
const LINE: usize = 500;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    context: Option<usize>,
    limit: Option<usize>,
}

/// What the search has found so far.
struct Search {
    pattern: Regex,
    context: usize,
    limit: usize,
    matches: usize,
    lines_cut: bool,
    out: Vec<String>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let shown = input.path.as_deref().unwrap_or(".");
    let root = context.path(shown);
    let kind = context.system.kind(&root).await.map_err(|_| format!("Path not found: {shown}"))?;
    let source = if input.literal { regex::escape(&input.pattern) } else { input.pattern.clone() };
    let pattern = RegexBuilder::new(&source)
        .case_insensitive(input.ignore_case)
        .build()
        .map_err(|error| format!("Bad pattern {:?}: {error}", input.pattern))?;
    let glob = input.glob.as_deref().map(matcher).transpose()?;
    let mut search = Search {
        pattern,
        context: input.context.unwrap_or(0),
        limit: input.limit.unwrap_or(LIMIT),
        matches: 0,
        lines_cut: false,
        out: Vec::new(),
    };
    if kind == Kind::Directory {
        let mut walk = Walk::below(&root);
        while search.matches < search.limit {
            let Some(found) = walk.next(context).await? else { break };
            if !found.is_directory
                && glob.as_ref().is_none_or(|(glob, by_name)| chosen(glob, *by_name, &found.relative))
                && let Ok(bytes) = context.system.read(&found.path).await
            {
                search.file(&found.relative, &bytes);
            }
        }
    } else {
        let bytes = context.system.read(&root).await.map_err(|error| format!("Cannot read {shown}: {error}"))?;
        let name = root.file_name().map_or(shown.into(), |name| name.to_string_lossy());
        search.file(&name, &bytes);
    }
    Ok(search.report())
}

/// A glob, and whether it is about names only.
fn matcher(glob: &str) -> Result<(GlobMatcher, bool), String> {
    let matcher = GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("Bad glob {glob:?}: {error}"))?
        .compile_matcher();
    Ok((matcher, !glob.contains('/')))
}

fn chosen(glob: &GlobMatcher, by_name: bool, relative: &str) -> bool {
    glob.is_match(if by_name { relative.rsplit('/').next().unwrap_or(relative) } else { relative })
}

impl Search {
    fn file(&mut self, name: &str, bytes: &[u8]) {
        // A file with a zero byte is no text, as for ripgrep.
        if bytes.contains(&0) {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<&str> = text.lines().collect();
        let mut hits = BTreeSet::new();
        for (number, line) in lines.iter().enumerate() {
            if self.matches == self.limit {
                break;
            }
            if self.pattern.is_match(line) {
                self.matches += 1;
                hits.insert(number);
            }
        }
        let around: BTreeSet<usize> = hits
            .iter()
            .flat_map(|hit| hit.saturating_sub(self.context)..=(hit + self.context).min(lines.len() - 1))
            .collect();
        for number in around {
            let mark = if hits.contains(&number) { ':' } else { '-' };
            let line: String = lines[number].chars().take(LINE).collect();
            let cut = line.len() < lines[number].len();
            self.lines_cut |= cut;
            let more = if cut { "... [truncated]" } else { "" };
            self.out.push(format!("{name}{mark}{}{mark} {line}{more}", number + 1));
        }
    }

    fn report(self) -> ToolOutput {
        if self.out.is_empty() {
            return ToolOutput::text("No matches found");
        }
        let kept = truncate::head_of(&self.out.join("\n"), usize::MAX);
        let mut text = kept.content.clone();
        let mut details = Map::new();
        if self.matches >= self.limit {
            let more = self.limit * 2;
            text.push_str(&format!(
                "\n\n[{} matches limit reached. Use limit={more} for more, or refine pattern]",
                self.limit
            ));
            details.insert("matchLimitReached".to_owned(), self.limit.into());
        }
        if kept.truncated {
            details.insert("truncation".to_owned(), json!(kept));
        }
        if self.lines_cut {
            details.insert("linesTruncated".to_owned(), true.into());
        }
        ToolOutput::text(text).with_details(Value::Object(details))
    }
}
