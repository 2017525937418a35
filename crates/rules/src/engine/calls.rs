//! Reads the arguments of a tool call while they stream.
//!
//! | tool | text that rules see |
//! |---|---|
//! | `write` | the argument `content` |
//! | `edit`, `multi_edit`, `apply_patch` | the new text: the replacements, or the lines with `+` of a patch, file by file |
//! | any other | each string value, as a separate text |
//!
//! The text is decoded. Rules do not see the text that a call removes, keys, or the punctuation of JSON.

use super::arguments::{ArgumentSink, Decoder, KeyPath};
use super::call_matches::{CallMatch, CallMatches, Owner};
use super::compiled::StreamRules;
use super::fallback::Search;
use super::new_lines::{NewLines, PatchPart};
use super::value_lanes::{CallText, ValueLanes};
use super::waiting::{CallScope, PathVerdict};

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

/// The values of the arguments: the current one, its text, and the matches in all of them.
#[derive(Debug)]
struct Values {
    value: CurrentValue,
    lanes: ValueLanes,
    matches: CallMatches,
}

/// The value that is being read.
#[derive(Debug)]
struct CurrentValue {
    shape: Shape,
    target: Target,
    /// Whether the value is a path as well.
    reads_path: bool,
    /// Whether the value is itself JSON.
    reads_json: bool,
    /// Ids of the objects that enclose the value.
    objects: Vec<u32>,
    /// The file that the patch currently changes.
    file: Option<String>,
    patch: NewLines,
    /// The value of the last `op`, and the number of its object: a patch that creates a file may have no signs.
    operation: (u32, String),
}

impl CurrentValue {
    /// Begins a call of a tool.
    fn restart(&mut self, tool: &str) {
        self.shape = match tool.to_ascii_lowercase().as_str() {
            "write" => Shape::Write,
            "edit" | "multi_edit" | "multiedit" | "apply_patch" => Shape::Edit,
            _ => Shape::Other,
        };
        self.target = Target::Nothing;
        self.reads_path = false;
        self.reads_json = false;
        self.operation.1.clear();
        self.file = None;
        self.patch = NewLines::default();
    }

    /// Returns whether rules see the current text.
    fn has_text(&self) -> bool {
        !matches!(self.target, Target::Nothing | Target::Operation)
    }

    fn owner(&self) -> Owner {
        match &self.file {
            Some(file) => Owner::File(file.clone()),
            None => Owner::Objects(self.objects.clone()),
        }
    }
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
    /// All text is new if the patch creates a file and does not begin with a sign.
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
                value: CurrentValue {
                    shape: Shape::Other,
                    target: Target::Nothing,
                    reads_path: false,
                    reads_json: false,
                    objects: Vec::new(),
                    file: None,
                    patch: NewLines::default(),
                    operation: (0, String::new()),
                },
                lanes: ValueLanes::new(rules, is_traced),
                matches: CallMatches::default(),
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
        values.value.restart(tool);
        values.lanes.restart();
        values.matches.restart();
    }

    /// Returns the number of bytes that automata read, over all calls that used these buffers.
    pub(crate) fn scanned(&self) -> u64 {
        self.values.lanes.scanned()
    }

    /// Sets the paths that the caller knows.
    pub(crate) fn give_paths(&mut self, paths: &[&str]) {
        self.values.matches.give_paths(paths);
    }

    /// Reads the next piece of the arguments.
    #[inline]
    pub(crate) fn push(&mut self, delta: &str, search: &mut dyn Search) {
        self.decoder.push(delta, &mut Sink { values: &mut self.values, inner: Some(&mut self.inner), search });
        self.values.end_delta(search);
    }

    /// Sets a decoded text as the only value of the call.
    pub(crate) fn set(&mut self, text: &str, search: &mut dyn Search) {
        self.values.value.target = Target::Text;
        self.values.value.objects = vec![0];
        self.values.open();
        self.values.lanes.push(text);
        self.values.end_delta(search);
    }

    /// Ends the arguments.
    pub(crate) fn close(&mut self, search: &mut dyn Search) {
        let mut sink = Sink { values: &mut self.values, inner: Some(&mut self.inner), search };
        self.decoder.finish(&mut sink);
        self.values.close(search);
        self.values.matches.complete_paths();
    }

    /// Returns whether matches are to be judged: there are new ones, or paths have changed.
    #[inline]
    pub(crate) fn has_unjudged(&self) -> bool {
        self.values.matches.is_unjudged
    }

    /// Judges the matches by the known paths. A match that may still get a path waits.
    pub(crate) fn judge(&mut self, scope: &mut CallScope<'_>) -> Vec<(CallMatch, PathVerdict)> {
        self.values.matches.judge(scope)
    }

    /// Takes the matches for which no path arrived.
    pub(crate) fn take_waiting(&mut self) -> Vec<CallMatch> {
        self.values.matches.waiting.take_all()
    }

    pub(crate) fn take_texts(&mut self) -> Vec<CallText> {
        std::mem::take(&mut self.values.lanes.texts)
    }

    /// Returns the complete paths that belong to a text.
    pub(crate) fn paths(&self, owner: &Owner) -> Vec<String> {
        self.values.matches.paths().of(owner).map(str::to_owned).collect()
    }
}

struct Sink<'a> {
    values: &'a mut Values,
    /// Decoder for JSON in a string; `None` inside such JSON, which is decoded only once.
    inner: Option<&'a mut Decoder>,
    search: &'a mut dyn Search,
}

impl ArgumentSink for Sink<'_> {
    fn open(&mut self, key: &KeyPath<'_>) {
        let values = &mut *self.values;
        // The tool also accepts its edits as a string.
        if values.value.shape == Shape::Edit
            && key.key == "edits"
            && let Some(inner) = &mut self.inner
        {
            inner.restart_inside(key);
            values.value.reads_json = true;
            return;
        }
        let object = key.object();
        values.value.target = match values.value.shape {
            Shape::Other => Target::Text,
            Shape::Write if key.key == "content" && key.depth() == 1 => Target::Text,
            Shape::Write => Target::Nothing,
            Shape::Edit => match edit_target(key.key) {
                Target::Patch if values.value.operation.0 == object && values.value.operation.1 == "create" => {
                    Target::CreatingPatch
                }
                target => target,
            },
        };
        values.value.reads_path = is_path(key) && values.matches.begin_path(object);
        if values.value.target == Target::Operation {
            values.value.operation = (object, String::new());
        }
        if values.value.has_text() {
            values.value.objects.clear();
            values.value.objects.extend(key.objects());
            if values.value.objects.is_empty() {
                values.value.objects.push(0);
            }
            values.open();
        }
    }

    #[inline]
    fn piece(&mut self, text: &str) {
        let values = &mut *self.values;
        if values.value.reads_json
            && let Some(inner) = &mut self.inner
        {
            return inner.push(text, &mut Sink { values, inner: None, search: &mut *self.search });
        }
        if values.value.reads_path {
            values.matches.push_path(text);
        }
        if values.value.target == Target::CreatingPatch {
            values.value.target = if text.starts_with('+') { Target::Patch } else { Target::Text };
        }
        match values.value.target {
            Target::Text => values.lanes.push(text),
            Target::Patch => values.push_patch(Some(text), self.search),
            Target::Operation if values.value.operation.1.len() + text.len() < 32 => {
                values.value.operation.1.push_str(text)
            }
            Target::Nothing | Target::Operation | Target::CreatingPatch => {}
        }
    }

    fn close(&mut self) {
        let values = &mut *self.values;
        if values.value.reads_json
            && let Some(inner) = &mut self.inner
        {
            inner.finish(&mut Sink { values, inner: None, search: &mut *self.search });
            values.value.reads_json = false;
            return;
        }
        if std::mem::take(&mut values.value.reads_path) {
            values.matches.end_path();
        }
        if values.value.target == Target::Patch {
            values.push_patch(None, self.search);
        }
        values.close(self.search);
    }
}

impl Values {
    /// Begins a text.
    fn open(&mut self) {
        self.lanes.begin_text();
        if self.value.target != Target::Patch {
            self.lanes.begin_value();
        }
    }

    /// Continues a patch, or ends it.
    fn push_patch(&mut self, piece: Option<&str>, search: &mut dyn Search) {
        let mut patch = std::mem::take(&mut self.value.patch);
        let mut take = |part: PatchPart<'_>| match part {
            PatchPart::Text(text) => self.lanes.push(text),
            PatchPart::File(file) => {
                self.close_text(search);
                self.lanes.begin_text();
                self.lanes.forget();
                self.value.file = Some(file.to_owned());
            }
        };
        match piece {
            Some(piece) => patch.push(piece, &mut take),
            None => patch.finish(&mut take),
        }
        self.value.patch = patch;
    }

    /// Ends the current value.
    fn close(&mut self, search: &mut dyn Search) {
        if self.value.has_text() {
            self.close_text(search);
        }
        self.value.target = Target::Nothing;
        self.value.file = None;
    }

    fn close_text(&mut self, search: &mut dyn Search) {
        self.lanes.close(self.is_kept(), search);
        self.collect();
        self.lanes.keep_text(|| self.value.owner());
    }

    #[inline]
    fn end_delta(&mut self, search: &mut dyn Search) {
        if !self.value.has_text() {
            return;
        }
        self.lanes.end_delta(self.is_kept(), search);
        self.collect();
        self.lanes.history.trim();
    }

    /// Returns whether AST conditions read the text.
    fn is_kept(&self) -> bool {
        self.value.shape != Shape::Other
    }

    /// Resolves the positions of the matches while the text around them is known.
    #[inline]
    fn collect(&mut self) {
        for found in std::mem::take(&mut self.lanes.matches) {
            self.matches.add(found, self.value.owner(), &self.lanes.history);
        }
    }
}

/// Returns whether a value is a path: a string whose key ends in `path`, or a member of a list whose key ends in `paths`.
fn is_path(key: &KeyPath<'_>) -> bool {
    let ending = if key.in_list { "paths" } else { "path" };
    let from = key.key.len().checked_sub(ending.len());
    from.and_then(|from| key.key.get(from..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

/// Returns the treatment of an edit's argument, by its key.
fn edit_target(key: &str) -> Target {
    match key {
        "new_string" | "newString" | "newText" | "new_text" | "new_str" | "newStr" | "replacement" | "content"
        | "text" | "insert_text" | "new_content" => Target::Text,
        "diff" | "patch" | "input" => Target::Patch,
        "op" | "operation" => Target::Operation,
        _ => Target::Nothing,
    }
}
