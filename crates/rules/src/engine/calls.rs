//! Reads the arguments of a tool call while they stream.
//!
//! | tool | text that rules see |
//! |---|---|
//! | `write` | the argument `content` |
//! | `edit`, `multi_edit`, `apply_patch` | the new text: of replacements the replacement, of patches the lines with `+`, file by file |
//! | any other | each string value, as a text of its own |
//!
//! The text is decoded. Rules see neither the text that a call removes, nor keys and the punctuation of JSON.

use super::arguments::{ArgumentSink, Decoder, KeyPath};
use super::compiled::StreamRules;
use super::fallback::Search;
use super::history::History;
use super::lane::{Lane, Match, MatchKind};
use super::new_lines::{NewLines, PatchPart};
use super::waiting::{CallScope, PathVerdict, Paths, PendingMatches};
use std::collections::HashSet;
use std::sync::Arc;

/// Most paths of a call.
const MAX_PATHS: usize = 256;
/// Longest path, in bytes.
const MAX_PATH: usize = 4096;
/// Most matches of a call that wait for a path.
const MAX_FOUND: usize = 4096;
/// Largest kept buffer for the text of a delta, in bytes.
const MAX_PENDING: usize = 64 * 1024;
/// Most bytes of a call's texts that are kept for AST conditions.
const MAX_KEPT: usize = 2 * crate::ast::MAX_TEXT;

/// A match of a call, and the paths that it may be judged by.
#[derive(Debug)]
pub(crate) struct CallMatch {
    pub(crate) found: Match,
    pub(crate) site: super::Site,
    pub(crate) owner: Owner,
}

impl CallMatch {
    /// Returns the key under which later matches count as repetitions of this one.
    pub(crate) fn key(&self) -> (usize, MatchKind, Owner) {
        (self.found.rule, self.found.kind, self.owner.clone())
    }
}

/// The paths that belong to a text of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The paths of the enclosing objects.
    Objects(Vec<u32>),
    /// The file that a patch names.
    File(String),
}

/// A text of a call, for AST conditions.
#[derive(Debug)]
pub(crate) struct CallText {
    pub(crate) text: String,
    pub(crate) owner: Owner,
}

/// A path among the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallPath {
    pub(crate) object: u32,
    pub(crate) path: String,
    pub(crate) is_complete: bool,
}

/// A streaming tool call.
#[derive(Debug)]
pub(crate) struct CallStream {
    pub(crate) id: String,
    pub(crate) tool: String,
    decoder: Decoder,
    /// Reads a list of edits that is encoded as a JSON string.
    inner: Decoder,
    values: Values,
}

#[derive(Debug)]
struct Values {
    shape: Shape,
    target: Target,
    /// Whether the current value is a path as well.
    reads_path: bool,
    /// Whether the current value is itself JSON.
    reads_json: bool,
    /// The objects around the current value.
    objects: Vec<u32>,
    /// The current file of the patch.
    file: Option<String>,
    patch: NewLines,
    /// The value of the last `op`, and its object: a patch that creates a file may have no signs.
    operation: (u32, String),
    lanes: Vec<Lane>,
    history: History,
    matches: Vec<Match>,
    /// Matches that were not judged, and their keys.
    found: Vec<CallMatch>,
    keys: HashSet<(usize, MatchKind, Owner)>,
    waiting: PendingMatches,
    is_unjudged: bool,
    paths: Vec<CallPath>,
    has_new_paths: bool,
    /// Paths that the caller knows, and a count of their changes.
    given: Vec<String>,
    given_version: u64,
    keeps_texts: bool,
    /// Text of this delta that was not passed to the lanes yet: escapes cut it into pieces of a few characters.
    pending: String,
    /// The text, for AST conditions.
    text: String,
    texts: Vec<CallText>,
    kept: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Write,
    Edit,
    Other,
}

/// The treatment of the current value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Target {
    #[default]
    Nothing,
    Operation,
    Text,
    /// New text if the patch creates a file and does not begin with a sign.
    CreatingPatch,
    Patch,
}

impl CallStream {
    pub(crate) fn new(rules: &StreamRules, is_traced: bool) -> Self {
        Self {
            id: String::new(),
            tool: String::new(),
            decoder: Decoder::default(),
            inner: Decoder::default(),
            values: Values {
                shape: Shape::Other,
                target: Target::Nothing,
                reads_path: false,
                reads_json: false,
                objects: Vec::new(),
                file: None,
                patch: NewLines::default(),
                operation: (0, String::new()),
                lanes: rules.lanes.iter().map(|lane| Lane::new(Arc::clone(lane), is_traced)).collect(),
                history: History::default(),
                matches: Vec::new(),
                found: Vec::new(),
                keys: HashSet::new(),
                waiting: PendingMatches::default(),
                is_unjudged: false,
                paths: Vec::new(),
                has_new_paths: false,
                given: Vec::new(),
                given_version: 0,
                keeps_texts: !rules.ast.is_empty(),
                pending: String::new(),
                text: String::new(),
                texts: Vec::new(),
                kept: 0,
            },
        }
    }

    /// Begins a call.
    pub(crate) fn restart(&mut self, id: &str, tool: &str) {
        self.id.clear();
        self.id.push_str(id);
        self.tool.clear();
        self.tool.push_str(tool);
        self.decoder.restart();
        let values = &mut self.values;
        values.shape = match tool.to_ascii_lowercase().as_str() {
            "write" => Shape::Write,
            "edit" | "multi_edit" | "multiedit" | "apply_patch" => Shape::Edit,
            _ => Shape::Other,
        };
        values.target = Target::Nothing;
        values.reads_path = false;
        values.reads_json = false;
        values.operation.1.clear();
        values.file = None;
        values.patch = NewLines::default();
        values.found.clear();
        values.keys.clear();
        values.waiting.restart();
        values.is_unjudged = false;
        values.paths.clear();
        values.given.clear();
        values.given_version = 0;
        values.texts.clear();
        values.kept = 0;
        values.begin_text();
        values.lanes.iter_mut().for_each(Lane::restart);
    }

    /// Returns the number of bytes that automata read, over all calls that used these buffers.
    pub(crate) fn scanned(&self) -> u64 {
        self.values.lanes.iter().map(Lane::scanned).sum()
    }

    /// Takes the paths that the caller knows.
    pub(crate) fn give_paths(&mut self, paths: &[&str]) {
        if self.values.given != paths {
            self.values.given = paths.iter().map(|&path| path.to_owned()).collect();
            self.values.given_version += 1;
            self.values.note_new_paths();
        }
    }

    /// Reads the next piece of the arguments.
    #[inline]
    pub(crate) fn push(&mut self, delta: &str, search: &mut dyn Search) {
        self.decoder.push(delta, &mut Sink { values: &mut self.values, inner: Some(&mut self.inner), search });
        self.values.end_delta(search);
    }

    /// Takes a decoded text as the only value of the call.
    pub(crate) fn set(&mut self, text: &str, search: &mut dyn Search) {
        self.values.target = Target::Text;
        self.values.objects = vec![0];
        self.values.open();
        self.values.push(text);
        self.values.end_delta(search);
    }

    /// Ends the arguments.
    pub(crate) fn close(&mut self, search: &mut dyn Search) {
        let mut sink = Sink { values: &mut self.values, inner: Some(&mut self.inner), search };
        self.decoder.finish(&mut sink);
        self.values.close(search);
        // A truncated path stays as it is.
        self.values.paths.iter_mut().for_each(|path| path.is_complete = true);
        self.values.note_new_paths();
    }

    /// Reports whether matches are to be judged: there are new ones, or paths have changed.
    #[inline]
    pub(crate) fn has_unjudged(&self) -> bool {
        self.values.is_unjudged
    }

    /// Judges the matches by the paths that are known. One that may still get a path waits.
    pub(crate) fn judge(&mut self, scope: &mut CallScope<'_>) -> Vec<(CallMatch, PathVerdict)> {
        let values = &mut self.values;
        let mut judged = Vec::new();
        values.is_unjudged = false;
        values.keys.clear();
        let paths = Paths { known: &values.paths, given: &values.given, given_version: values.given_version };
        if std::mem::take(&mut values.has_new_paths) {
            values.waiting.judge(paths, scope, &mut judged);
        }
        for found in values.found.drain(..) {
            values.waiting.judge_new(found, paths, scope, &mut judged);
        }
        judged
    }

    /// Takes the matches for which no path arrived.
    pub(crate) fn take_waiting(&mut self) -> Vec<CallMatch> {
        self.values.waiting.take_all()
    }

    pub(crate) fn take_texts(&mut self) -> Vec<CallText> {
        std::mem::take(&mut self.values.texts)
    }

    /// Returns the complete paths that belong to a text.
    pub(crate) fn paths(&self, owner: &Owner) -> Vec<String> {
        let Values { paths, given, given_version, .. } = &self.values;
        let paths = Paths { known: paths, given, given_version: *given_version };
        paths.of(owner).map(str::to_owned).collect()
    }
}

struct Sink<'a> {
    values: &'a mut Values,
    /// The decoder of JSON in a string; such JSON is not decoded in strings of its own.
    inner: Option<&'a mut Decoder>,
    search: &'a mut dyn Search,
}

impl ArgumentSink for Sink<'_> {
    fn open(&mut self, key: &KeyPath<'_>) {
        let values = &mut *self.values;
        // The tool accepts its edits as a string as well.
        if values.shape == Shape::Edit
            && key.key == "edits"
            && let Some(inner) = &mut self.inner
        {
            inner.restart_inside(key);
            values.reads_json = true;
            return;
        }
        let object = key.object();
        values.target = match values.shape {
            Shape::Other => Target::Text,
            Shape::Write if key.key == "content" && key.depth() == 1 => Target::Text,
            Shape::Write => Target::Nothing,
            Shape::Edit => match edit_target(key.key) {
                Target::Patch if values.operation.0 == object && values.operation.1 == "create" => {
                    Target::CreatingPatch
                }
                target => target,
            },
        };
        values.reads_path = is_path(key) && values.paths.len() < MAX_PATHS;
        if values.reads_path {
            values.paths.push(CallPath { object, path: String::new(), is_complete: false });
        }
        if values.target == Target::Operation {
            values.operation = (object, String::new());
        }
        if !matches!(values.target, Target::Nothing | Target::Operation) {
            values.objects.clear();
            values.objects.extend(key.objects());
            if values.objects.is_empty() {
                values.objects.push(0);
            }
            values.open();
        }
    }

    #[inline]
    fn piece(&mut self, text: &str) {
        let values = &mut *self.values;
        if values.reads_json
            && let Some(inner) = &mut self.inner
        {
            return inner.push(text, &mut Sink { values, inner: None, search: &mut *self.search });
        }
        if values.reads_path
            && let Some(path) = values.paths.last_mut()
            && path.path.len() + text.len() <= MAX_PATH
        {
            path.path.push_str(text);
        }
        if values.target == Target::CreatingPatch {
            values.target = if text.starts_with('+') { Target::Patch } else { Target::Text };
        }
        match values.target {
            Target::Text => values.push(text),
            Target::Patch => values.push_patch(Some(text), self.search),
            Target::Operation if values.operation.1.len() + text.len() < 32 => values.operation.1.push_str(text),
            Target::Nothing | Target::Operation | Target::CreatingPatch => {}
        }
    }

    fn close(&mut self) {
        let values = &mut *self.values;
        if values.reads_json
            && let Some(inner) = &mut self.inner
        {
            inner.finish(&mut Sink { values, inner: None, search: &mut *self.search });
            values.reads_json = false;
            return;
        }
        if std::mem::take(&mut values.reads_path)
            && let Some(path) = values.paths.last_mut()
        {
            path.is_complete = true;
            values.note_new_paths();
        }
        if values.target == Target::Patch {
            values.push_patch(None, self.search);
        }
        values.close(self.search);
    }
}

impl Values {
    /// Judges the waiting matches again.
    fn note_new_paths(&mut self) {
        self.has_new_paths = true;
        self.is_unjudged |= self.waiting.len() > 0;
    }

    /// Discards the text before.
    fn begin_text(&mut self) {
        self.history.restart();
        self.matches.clear();
        self.pending.clear();
        self.text.clear();
    }

    /// Begins a text.
    fn open(&mut self) {
        self.begin_text();
        if self.target != Target::Patch {
            for lane in &mut self.lanes {
                lane.begin_value(&mut self.matches);
            }
        }
    }

    #[inline]
    fn push(&mut self, text: &str) {
        self.pending.push_str(text);
    }

    /// Passes the text of this delta to the lanes.
    fn flush(&mut self, search: &mut dyn Search) {
        if self.pending.is_empty() {
            return;
        }
        let at = self.history.len();
        self.history.push(&self.pending);
        for lane in &mut self.lanes {
            lane.push(at, &self.pending, search, &mut self.matches);
        }
        if self.keeps_texts && self.shape != Shape::Other && self.kept + self.pending.len() <= MAX_KEPT {
            self.kept += self.pending.len();
            self.text.push_str(&self.pending);
        }
        self.pending.clear();
        self.pending.shrink_to(MAX_PENDING);
    }

    /// Continues a patch, or ends it.
    fn push_patch(&mut self, piece: Option<&str>, search: &mut dyn Search) {
        let mut patch = std::mem::take(&mut self.patch);
        let mut take = |part: PatchPart<'_>| match part {
            PatchPart::Text(text) => self.push(text),
            PatchPart::File(file) => {
                self.close_text(search);
                self.begin_text();
                self.lanes.iter_mut().for_each(Lane::forget);
                self.file = Some(file.to_owned());
            }
        };
        match piece {
            Some(piece) => patch.push(piece, &mut take),
            None => patch.finish(&mut take),
        }
        self.patch = patch;
    }

    /// Ends the current value.
    fn close(&mut self, search: &mut dyn Search) {
        let target = std::mem::take(&mut self.target);
        if !matches!(target, Target::Nothing | Target::Operation) {
            self.close_text(search);
        }
        self.file = None;
    }

    fn close_text(&mut self, search: &mut dyn Search) {
        self.flush(search);
        for lane in &mut self.lanes {
            lane.close(search, &mut self.matches);
        }
        self.collect();
        if !self.text.is_empty() {
            let owner = self.owner();
            self.texts.push(CallText { text: std::mem::take(&mut self.text), owner });
        }
    }

    #[inline]
    fn end_delta(&mut self, search: &mut dyn Search) {
        if matches!(self.target, Target::Nothing | Target::Operation) {
            return;
        }
        self.flush(search);
        for lane in &mut self.lanes {
            lane.end_delta(search, &mut self.matches);
        }
        if !self.matches.is_empty() {
            self.collect();
        }
        self.history.trim();
    }

    /// Resolves the position of each match, while the text around it is known.
    fn collect(&mut self) {
        for found in std::mem::take(&mut self.matches) {
            let key = (found.rule, found.kind, self.owner());
            let is_full = self.found.len() + self.waiting.len() >= MAX_FOUND;
            if self.keys.contains(&key) || self.waiting.has(&key) || is_full {
                continue;
            }
            let site = super::Site::new(&self.history, found.offset);
            self.is_unjudged = true;
            self.found.push(CallMatch { found, site, owner: key.2.clone() });
            self.keys.insert(key);
        }
    }

    fn owner(&self) -> Owner {
        match &self.file {
            Some(file) => Owner::File(file.clone()),
            None => Owner::Objects(self.objects.clone()),
        }
    }
}

/// Reports whether a value is a path: a string whose key ends in `path`, or one of a list whose key ends in `paths`.
fn is_path(key: &KeyPath<'_>) -> bool {
    let ending = if key.in_list { "paths" } else { "path" };
    let from = key.key.len().checked_sub(ending.len());
    from.and_then(|from| key.key.get(from..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

/// Returns the treatment of an argument of an edit, by its key.
fn edit_target(key: &str) -> Target {
    match key {
        "new_string" | "newString" | "newText" | "new_text" | "new_str" | "newStr" | "replacement" | "content"
        | "text" | "insert_text" | "new_content" => Target::Text,
        "diff" | "patch" | "input" => Target::Patch,
        "op" | "operation" => Target::Operation,
        _ => Target::Nothing,
    }
}
