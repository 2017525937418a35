//! The `grep` tool: searches lines by pattern. Patterns are those of the `regex` crate, without look-around and back-references,
//! so that a search takes linear time.

use super::walk::FileWalk;
use super::{NO_LIMIT, ToolContext, ToolOutput, json_number, number, refused, shown, to_count, truncate, with_notes};
use crate::system::FileKind;
use ignore::overrides::{Override, OverrideBuilder};
use pijs_protocol::{globs, guard};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const LIMIT: f64 = 100.0;
const LINE: usize = 500;
/// Maximum memory of a compiled pattern in bytes. The time of each search step grows with it.
const PATTERN_BYTES: usize = 2 << 20;
/// Number of bytes that are searched between two checks for cancellation.
const PIECE: usize = 1 << 20;
/// Maximum number of files that are searched concurrently in this process. A search keeps its permit until it notices a
/// cancellation, which takes up to a minute with a large pattern.
const MAX_CONCURRENT: usize = 8;
/// Maximum number of bytes that a search collects; the result shows far fewer.
const MAX_COLLECTED: usize = 64 << 20;

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
    context: Option<f64>,
    limit: Option<f64>,
}

/// The state of a search.
struct GrepSearch {
    pattern: Regex,
    context: usize,
    limit: f64,
    matches: f64,
    lines_cut: bool,
    out: Vec<String>,
    bytes: usize,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let root = context.path(input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("."));
    let kind = context.system.kind(&root).await.map_err(|_| format!("Path not found: {}", shown(&root)))?;
    let source = if input.literal { regex::escape(&input.pattern) } else { input.pattern.clone() };
    let pattern = RegexBuilder::new(&source)
        .case_insensitive(input.ignore_case)
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| format!("Bad pattern {:?}: {error}", input.pattern))?;
    let chosen = chosen(context.cwd, input.glob.as_deref().unwrap_or_default())?;
    let mut search = GrepSearch {
        pattern,
        context: input.context.map_or(0, to_count),
        limit: input.limit.unwrap_or(LIMIT).max(1.0),
        matches: 0.0,
        lines_cut: false,
        out: Vec::new(),
        bytes: 0,
    };
    if kind == FileKind::Directory {
        let mut walk = FileWalk::below(context, &root, chosen, false).await;
        while search.matches < search.limit && search.bytes <= MAX_COLLECTED {
            let Some(found) = walk.next(context).await? else { break };
            if !found.is_directory
                && let Ok(bytes) = context.system.read(&found.path).await
            {
                search = search.on_blocking_thread(context, found.relative, bytes).await?;
            }
        }
    } else {
        let bytes = context.system.read(&root).await.map_err(|error| refused(&error, "open", Some(&root)))?;
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        search = search.on_blocking_thread(context, name.into_owned(), bytes).await?;
    }
    Ok(search.report())
}

/// Returns the override for a glob, which includes files, or with a leading `!` excludes them, regardless of ignore files. A
/// folder that ignore files exclude is entered only if the glob matches the folder.
fn chosen(cwd: &Path, glob: &str) -> Result<Override, String> {
    if !globs::fits(glob) {
        return Err(format!("Bad glob: {}", globs::problem()));
    }
    if glob.is_empty() {
        return Ok(Override::empty());
    }
    let built = OverrideBuilder::new(cwd).add(glob).and_then(|builder| builder.build());
    built.map_err(|error| format!("Bad glob {glob:?}: {error}"))
}

impl GrepSearch {
    /// Searches a file on a blocking thread: the time per byte grows with the size of the pattern.
    async fn on_blocking_thread(
        mut self,
        context: &ToolContext<'_>,
        name: String,
        bytes: Vec<u8>,
    ) -> Result<Self, String> {
        static SEARCHING: Semaphore = Semaphore::const_new(MAX_CONCURRENT);
        if !guard!(GrepWorker) {
            self.file(&name, &bytes, &context.cancel);
            return Ok(self);
        }
        let cancel = context.cancel.clone();
        let aborted = || "Operation aborted".to_owned();
        let work = async {
            let lane = SEARCHING.acquire().await.map_err(|error| error.to_string())?;
            let cancel = cancel.clone();
            let search = move || {
                self.file(&name, &bytes, &cancel);
                drop(lane);
                self
            };
            tokio::task::spawn_blocking(search).await.map_err(|error| error.to_string())
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(aborted()),
            done = work => done,
        }
    }

    fn file(&mut self, name: &str, bytes: &[u8], cancel: &CancellationToken) {
        // As in ripgrep, a file with a NUL byte is binary.
        if bytes.contains(&0) {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
        // A final line break starts an empty line that can be context but not a match.
        for (number, line) in lines.iter().enumerate().take(truncate::lines(&text).len()) {
            if self.matches >= self.limit || self.bytes > MAX_COLLECTED || cancel.is_cancelled() {
                break;
            }
            if self.is_in(line, cancel) {
                self.matches += 1.0;
                self.block(name, &lines, number);
            }
        }
    }

    /// Returns whether a line matches. A line longer than [`PIECE`] is searched in pieces; a match across two of them is missed.
    fn is_in(&self, line: &str, cancel: &CancellationToken) -> bool {
        let mut rest = line;
        loop {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
            if self.pattern.is_match(piece) {
                return true;
            }
            if more.is_empty() || cancel.is_cancelled() {
                return false;
            }
            rest = more;
        }
    }

    /// Adds a match with its context lines.
    fn block(&mut self, name: &str, lines: &[&str], hit: usize) {
        let (from, to) = (hit.saturating_sub(self.context), hit.saturating_add(self.context));
        for (number, text) in lines.iter().enumerate().take(to.saturating_add(1)).skip(from) {
            // Overlapping context makes the output grow quadratically with the file.
            if self.bytes > MAX_COLLECTED {
                return;
            }
            let mark = if number == hit { ':' } else { '-' };
            let line: String = text.chars().take(LINE).collect();
            let cut = line.len() < text.len();
            self.lines_cut |= cut;
            let more = if cut { "... [truncated]" } else { "" };
            let shown = format!("{name}{mark}{}{mark} {line}{more}", number + 1);
            self.bytes += shown.len() + 1;
            self.out.push(shown);
        }
    }

    fn report(self) -> ToolOutput {
        if self.out.is_empty() {
            return ToolOutput::text("No matches found");
        }
        let kept = truncate::head_of(&self.out.join("\n"), NO_LIMIT);
        let (mut details, mut notes) = (Map::new(), Vec::new());
        if self.matches >= self.limit {
            let (limit, more) = (number(self.limit), number(self.limit * 2.0));
            notes.push(format!("{limit} matches limit reached. Use limit={more} for more, or refine pattern"));
            details.insert("matchLimitReached".to_owned(), json_number(self.limit));
        }
        let text = kept.content.clone();
        if kept.truncated {
            notes.push(format!("{} limit reached", truncate::size(truncate::MAX_BYTES)));
            details.insert("truncation".to_owned(), json!(kept));
        }
        if self.lines_cut {
            notes.push(format!("Some lines truncated to {LINE} chars. Use read tool to see full lines"));
            details.insert("linesTruncated".to_owned(), true.into());
        }
        ToolOutput::text(with_notes(text, &notes)).with_details(Value::Object(details))
    }
}
