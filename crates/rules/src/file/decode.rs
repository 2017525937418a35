//! Decodes keys and values to a [`Rule`].

use super::front::{self, Entry, Finding};
use super::keys::{self, KEYS};
use super::text::Mapped;
use super::yaml::{Kind, Node, Style, Value};
use super::{Format, MAX_CONDITIONS, ParsedFile, Part, Places};
use crate::activity::MAIN_AGENT;
use crate::ast::AstPatterns;
use crate::diagnostic::{Diagnostic, Excerpt, Severity, printable, quoted, similar};
use crate::pattern::{add_flag, is_glob};
use crate::rule::{Condition, ContextMode, InterruptMode, Origin, Region, Repeat, Rule, ScopeToken, Settle, Window};
use crate::scope::{self, MAX_TOKENS};
use crate::settings::RuleSettings;
use std::path::Path;

/// Keys of conditions.
const CONDITIONS: [&str; 2] = ["condition", "astCondition"];

/// Maximum cooldown, in seconds: ten years. A larger number is a mistake.
const MAX_SECONDS: f64 = 315_360_000.0;

/// Text of a value: trimmed, with the number of bytes cut before it.
struct Item<'a> {
    text: &'a str,
    skipped: usize,
    value: &'a Value,
}

/// Decodes one file.
pub(super) struct Decoder<'a> {
    path: &'a Path,
    file: &'a str,
    format: Format,
    origin: Origin,
    front: Mapped,
    entries: Vec<Entry>,
    is_ttsr: bool,
    /// Whether the file cannot produce a rule.
    is_broken: bool,
    /// Whether the file disables its rule.
    is_off: bool,
    diagnostics: Vec<Diagnostic>,
    places: Places,
    /// Whether front matter was read.
    has_front_matter: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(path: &'a Path, file: &'a str, format: Format, origin: Origin) -> Self {
        let mut places = Places::default();
        places.insert(Part::Rule, 0, Excerpt::new(file, 0, 0));
        Self {
            path,
            file,
            format,
            origin,
            front: Mapped::default(),
            entries: Vec::new(),
            is_ttsr: false,
            is_broken: false,
            is_off: false,
            diagnostics: Vec::new(),
            places,
            has_front_matter: true,
        }
    }

    pub(super) fn take(&mut self, mut front: Mapped) {
        let (entries, findings) = front::entries(&mut front, self.format == Format::Cursor);
        self.front = front;
        self.entries = entries;
        for finding in findings {
            self.report_finding(finding);
        }
        for at in 1..self.entries.len() {
            let (earlier, later) = self.entries.split_at(at);
            let Some(entry) = later.first().filter(|later| earlier.iter().any(|earlier| earlier.key == later.key))
            else {
                continue;
            };
            let message = format!("{} is given twice; the last one is used", quoted(&entry.written));
            let (at, length) = (entry.at, entry.written.len());
            let help = Some("remove one of the two".to_owned());
            self.report_finding(Finding { severity: Severity::Warning, at, length, message, help });
        }
    }

    pub(super) fn take_ttsr(&mut self, front: Mapped) {
        self.is_ttsr = true;
        let entries = front::ttsr_entries(&front.text, |key| KEYS.contains(&key));
        self.front = front;
        match entries {
            Ok(entries) => self.entries = entries,
            Err(finding) => {
                self.is_broken = true;
                self.report_finding(finding);
            }
        }
    }

    pub(super) fn report_no_front_matter(&mut self) {
        self.has_front_matter = false;
        let found = self.file.split_inclusive('\n').scan(0, |at, line| {
            *at += line.len();
            Some((*at - line.len(), line.trim_start_matches('\u{FEFF}')))
        });
        // Between paragraphs it is a thematic break.
        let has_key = |at: usize| self.file[at..].lines().nth(1).is_some_and(front::begins_with_key);
        let late = found.take(20).find(|&(at, line)| line.trim() == "---" && has_key(at));
        let (at, message, help) = match late {
            Some((at, line)) if line.starts_with([' ', '\t']) => (
                at,
                "the front matter is indented, so it is not read",
                "begin the first line of the file with this `---`, without spaces before it",
            ),
            Some((at, _)) => (
                at,
                "the front matter is not at the beginning of the file, so it is not read",
                "move this `---` to the first line",
            ),
            None => (
                0,
                "the file has no front matter, so the rule has no condition",
                "begin the file with `---`, `condition: 'PATTERN'` (or `alwaysApply: true`), `---`, each on a line of its own",
            ),
        };
        let line = &self.file[at..];
        let indent = line.len() - line.trim_start_matches(['\u{FEFF}', ' ', '\t']).len();
        let excerpt = Excerpt::new(self.file, at + indent, 3);
        self.report(&excerpt, Severity::Error, message.to_owned(), Some(help.to_owned()));
    }

    pub(super) fn report_unclosed(&mut self) {
        self.has_front_matter = false;
        let excerpt = Excerpt::new(self.file, self.file.find("---").unwrap_or_default(), 3);
        let message = "the front matter is not closed, so none of it is read";
        let help = "put `---` on a line of its own after the last key";
        self.report(&excerpt, Severity::Error, message.to_owned(), Some(help.to_owned()));
    }

    pub(super) fn report_too_long(&mut self) {
        self.is_broken = true;
        let message = format!("the front matter has more than {} bytes", front::MAX_FRONT_MATTER);
        let help = "close it with `---` before the text of the rule, or split the rule".to_owned();
        let excerpt = Excerpt::new(self.file, 0, 3);
        self.report(&excerpt, Severity::Error, message, Some(help));
    }

    pub(super) fn finish(mut self, body: String, parsed: &mut ParsedFile) {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = [".mdc", ".md"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned();
        let provider = if self.is_ttsr && self.format == Format::Pi { "pi-ttsr" } else { self.format.provider() };
        let mut rule = Rule { provider: provider.to_owned(), ..Rule::new(name, self.origin, body) };
        rule.path = (self.origin != Origin::BuiltIn).then(|| self.path.to_owned());
        let entries = std::mem::take(&mut self.entries);
        self.fill(&mut rule, &entries);
        self.report_unknown(&rule, &entries);
        if rule.content.trim().is_empty() && !self.is_broken {
            self.is_broken = true;
            let excerpt = Excerpt::new(self.file, self.file.trim_end().len().saturating_sub(1), 1);
            let help = "write after the second `---` what the model is told when the rule fires".to_owned();
            self.report(&excerpt, Severity::Error, "the rule has no text".to_owned(), Some(help));
        }
        if !self.is_broken {
            if self.is_off { &mut parsed.disabled } else { &mut parsed.rules }.push(rule);
        }
        self.diagnostics.sort_by_key(|found| (found.line, found.column));
        parsed.diagnostics = self.diagnostics;
        parsed.places = self.places;
        parsed.has_front_matter = self.has_front_matter;
    }

    fn fill(&mut self, rule: &mut Rule, entries: &[Entry]) {
        // A null value is treated as absent.
        let find = |key: &str| {
            let found = entries.iter().rfind(|entry| entry.key == key);
            found.filter(|entry| !matches!(entry.value.node, Node::Scalar { kind: Kind::Null, .. }))
        };
        self.descriptions(rule, &find);
        self.text_scope(rule, &find);
        let flags = find("flags").map(|entry| self.flags(entry)).unwrap_or_default();
        for key in ["condition", "ttsr_trigger", "ttsrTrigger", "astCondition"] {
            if let Some(entry) = entries.iter().rfind(|entry| entry.key == key) {
                self.empty_condition(entry);
            }
        }
        let condition = if self.is_ttsr {
            find("trigger")
        } else {
            find("condition").or_else(|| find("ttsr_trigger")).or_else(|| find("ttsrTrigger"))
        };
        if let Some(entry) = condition {
            self.conditions(rule, entry, &flags);
        }
        if self.is_ttsr && rule.conditions.is_empty() && !self.is_broken {
            self.report_empty_trigger(entries);
        }
        if let Some(entry) = find("astCondition") {
            self.take_ast_conditions(rule, entry);
        }
        if let Some(entry) = find("globs") {
            self.globs(rule, entry);
        }
        if let Some(entry) = find("agents") {
            self.agents(rule, entry);
        }
        self.modes(rule, &find);
    }

    fn descriptions<'e>(&mut self, rule: &mut Rule, find: &impl Fn(&str) -> Option<&'e Entry>) {
        rule.description =
            find("description").and_then(|entry| self.text(entry)).filter(|text| !text.trim().is_empty());
        rule.question = find("question").and_then(|entry| self.text(entry)).map(|text| text.trim().to_owned());
        rule.question = rule.question.take().filter(|text| !text.is_empty());
        if let Some(entry) = find("question") {
            self.locate(Part::Question, 0, &entry.value, 0, 0);
        }
        rule.always_apply = find("alwaysApply").is_some_and(|entry| self.flag(entry, false));
        // As in oh-my-pi, only `false` disables a rule.
        self.is_off = find("enabled").is_some_and(|entry| !self.flag(entry, true));
    }

    /// Reads `scope`: the window of a trigger of pi-ttsr, or the streams of any other rule.
    fn text_scope<'e>(&mut self, rule: &mut Rule, find: &impl Fn(&str) -> Option<&'e Entry>) {
        if self.is_ttsr {
            rule.window = Window::Line;
            rule.scope = vec![ScopeToken::Text];
            rule.interrupt_mode = Some(InterruptMode::Always);
            rule.context_mode = Some(ContextMode::Discard);
            if let Some(entry) = find("scope") {
                const WINDOWS: &[(&str, Window)] =
                    &[("line", Window::Line), ("chunk", Window::Chunk), ("accumulated", Window::Accumulated)];
                rule.window = self.choice(entry, WINDOWS).unwrap_or(Window::Line);
            }
        } else if let Some(entry) = find("scope") {
            self.scope(rule, entry);
        }
    }

    fn report_empty_trigger(&mut self, entries: &[Entry]) {
        self.is_broken = true;
        let at = entries.iter().find(|entry| entry.key == "trigger").map_or(0, |entry| entry.at);
        let message = "`trigger` is empty and would match everything".to_owned();
        let entry = entries.iter().find(|entry| entry.key == "trigger");
        let help = entry.and_then(|entry| self.commented_out(entry));
        let help = Some(help.unwrap_or_else(|| "write `trigger: 'PATTERN'`".to_owned()));
        let severity = Severity::Error;
        self.report_finding(Finding { severity, at, length: "trigger".len(), message, help });
    }

    fn take_ast_conditions(&mut self, rule: &mut Rule, entry: &Entry) {
        for item in self.items(entry) {
            if !rule.ast_conditions.iter().any(|known| known == item.text) && self.has_room(&rule.ast_conditions, entry)
            {
                self.locate(Part::AstCondition, rule.ast_conditions.len(), item.value, item.skipped, item.text.len());
                rule.ast_conditions.push(item.text.to_owned());
            }
        }
        self.ast_conditions(rule);
    }

    fn agents(&mut self, rule: &mut Rule, entry: &Entry) {
        for (at, token, value) in self.tokens(entry) {
            let agent = token.split(',').map(str::trim).collect::<Vec<_>>().join(",").to_lowercase();
            if rule.agents.contains(&agent) || rule.agents.len() >= MAX_TOKENS {
                continue;
            }
            self.locate(Part::Agent, rule.agents.len(), value, at, token.len());
            if agent != MAIN_AGENT && similar(&agent, [MAIN_AGENT]).is_some() {
                let message = format!("agent {} is not the agent of a session", quoted(&token));
                let help = format!("did you mean `{MAIN_AGENT}`?");
                self.report_at(value, at, token.len(), Severity::Warning, message, &help);
            }
            if let Err(why) = scope::PathGlob::new(&agent) {
                let message = format!("agent {} is not a valid glob: {why}", quoted(&token));
                self.report_at(
                    value,
                    at,
                    token.len(),
                    Severity::Error,
                    message,
                    "write the name of an agent, or `main`",
                );
            }
            rule.agents.push(agent);
        }
    }

    fn modes<'e>(&mut self, rule: &mut Rule, find: &impl Fn(&str) -> Option<&'e Entry>) {
        const INTERRUPT: &[(&str, InterruptMode)] = &[
            ("never", InterruptMode::Never),
            ("prose-only", InterruptMode::ProseOnly),
            ("tool-only", InterruptMode::ToolOnly),
            ("always", InterruptMode::Always),
        ];
        const CONTEXT: &[(&str, ContextMode)] = &[("discard", ContextMode::Discard), ("keep", ContextMode::Keep)];
        const REGION: &[(&str, Region)] = &[("any", Region::Any), ("code", Region::Code), ("prose", Region::Prose)];
        const SETTLE: &[(&str, Settle)] = &[("now", Settle::Now), ("word", Settle::Word), ("line", Settle::Line)];
        if let Some(entry) = find("interruptMode") {
            self.locate(Part::InterruptMode, 0, &entry.value, 0, 1);
            rule.interrupt_mode = self.choice(entry, INTERRUPT).or(rule.interrupt_mode);
        }
        if let Some(entry) = find("contextMode") {
            rule.context_mode = self.choice(entry, CONTEXT).or(rule.context_mode);
        }
        if let Some(entry) = find("where") {
            self.locate(Part::Where, 0, &entry.value, 0, 1);
            rule.region = self.choice(entry, REGION).unwrap_or_default();
        }
        if let Some(entry) = find("settle") {
            rule.settle = self.choice(entry, SETTLE).unwrap_or_default();
        }
        let whole = |decoder: &mut Self, key: &str, least: f64| {
            let what = format!("a whole number, {least} or more");
            let number =
                decoder.number(find(key)?, &what, |n| n.fract() == 0.0 && n >= least && n <= f64::from(u32::MAX))?;
            // The range check above makes this lossless.
            Some(number as u32)
        };
        rule.max_firings = whole(self, "maxFirings", 1.0);
        rule.max_retries_per_turn = whole(self, "maxRetriesPerTurn", 0.0);
        let gap = whole(self, "repeatGap", 0.0);
        self.repeat(rule, find, gap);
    }

    fn repeat<'e>(&mut self, rule: &mut Rule, find: &impl Fn(&str) -> Option<&'e Entry>, gap: Option<u32>) {
        // In pi-ttsr, 0 means no cooldown.
        let is_ttsr = self.is_ttsr;
        let what = format!(
            "a number of seconds, {} and at most {MAX_SECONDS}",
            if is_ttsr { "0 or more" } else { "more than 0" }
        );
        let is_valid = |n: f64| n <= MAX_SECONDS && (n > 0.0 || (n == 0.0 && is_ttsr));
        let cooldown = find("cooldown").and_then(|entry| self.number(entry, &what, is_valid));
        let repeat = find("repeat").or_else(|| find("repeatMode"));
        let help = "write `once`, or replace it with `repeatGap: TURNS` or `cooldown: SECONDS`";
        let modes = [("once", false), ("after-gap", true)];
        let may_repeat = repeat.and_then(|entry| self.choice_or(entry, &modes, help));
        let gap_key = find("repeatGap").filter(|_| gap.is_some());
        let (is_once, conflict) = (may_repeat == Some(false), "remove one of the two");
        let cooled = cooldown.filter(|seconds| *seconds > 0.0);
        let others = [
            gap_key,
            find("cooldown").filter(|_| cooled.is_some()),
            find("maxFirings").filter(|_| rule.max_firings > Some(1)),
        ];
        for other in others.into_iter().flatten().filter(|_| is_once) {
            let message = format!("{} has no effect: the rule fires once", quoted(&other.written));
            self.report_key(other, Severity::Warning, message, "write `repeat: after-gap`, or remove this key");
        }
        if let Some(other) = gap_key.filter(|_| cooled.is_some() && !is_once) {
            let message = "`repeatGap` has no effect together with `cooldown`".to_owned();
            self.report_key(other, Severity::Warning, message, conflict);
        }
        let is_many = rule.max_firings.is_some_and(|most| most > 1);
        rule.repeat = if is_once {
            Some(Repeat::Once)
        } else if let Some(seconds) = cooled.filter(|_| !self.is_ttsr || is_many) {
            // The range check above makes this lossless.
            Some(Repeat::Cooldown { seconds: seconds.ceil() as u64 })
        } else if let Some(turns) = gap {
            Some(Repeat::AfterGap { turns: turns.into() })
        } else if may_repeat == Some(true) {
            Some(Repeat::AfterGap { turns: RuleSettings::default().repeat_gap })
        } else if is_many {
            Some(Repeat::AfterGap { turns: 0 })
        } else if self.is_ttsr || rule.max_firings == Some(1) {
            Some(Repeat::Once)
        } else {
            None
        };
        if self.is_ttsr && rule.max_firings.is_none() && may_repeat != Some(true) {
            rule.max_firings = Some(1);
        }
    }

    fn conditions(&mut self, rule: &mut Rule, entry: &Entry, flags: &str) {
        let mut globs = Vec::new();
        for item in self.items(entry) {
            if !self.is_ttsr && is_glob(item.text) {
                globs.push((item.text, item.skipped, item.value));
                continue;
            }
            let mut condition = match self.is_ttsr {
                true => Condition { source: item.text.to_owned(), flags: String::new() },
                false => Condition::from_inline(item.text),
            };
            flags.chars().for_each(|flag| add_flag(&mut condition.flags, flag));
            if rule.conditions.contains(&condition) || !self.has_room(&rule.conditions, entry) {
                continue;
            }
            let at = item.skipped + item.text.len() - condition.source.len();
            if let Err(error) = condition.check() {
                let index = rule.conditions.len() + 1;
                let message = format!("{} {index} is not a valid regular expression: {}", entry.key, error.message);
                let message =
                    if error.is_too_large { format!("{} {index}: {}", entry.key, error.message) } else { message };
                let help = error
                    .help
                    .as_deref()
                    .unwrap_or("correct this condition; the other conditions of the rule are used");
                self.report_at(item.value, at + error.offset, 1, Severity::Error, message, help);
                if error.is_too_large {
                    continue;
                }
            }
            let number = rule.conditions.len() + 1;
            self.escaped_by_yaml(&item, number, &entry.key);
            if matches!(item.value.node, Node::Scalar { style: Style::Block, .. }) && item.text.contains('\n') {
                let message =
                    format!("{} {number} has line breaks, and matches only text with the same line breaks", entry.key);
                let help = "write one pattern in each item of a list (`- 'PATTERN'`), or `>-` to join lines by spaces";
                self.report_at(item.value, 0, 1, Severity::Warning, message, help);
            }
            for doubt in condition.doubts() {
                let severity = if doubt.is_sure { Severity::Warning } else { Severity::Note };
                let message = format!("{} {number} {}", entry.key, doubt.message);
                self.report_at(item.value, at + doubt.offset, doubt.length, severity, message, &doubt.help);
            }
            self.locate(Part::Condition, rule.conditions.len(), item.value, at, condition.source.len());
            rule.conditions.push(condition);
        }
        let added: Vec<(&str, ScopeToken)> = globs
            .iter()
            .flat_map(|&(glob, ..)| ["edit", "write"].map(|tool| (glob, tool)))
            .map(|(glob, tool)| {
                let token = format!("tool:{tool}({glob})");
                (glob, scope::parse_token(&token).unwrap_or(ScopeToken::Unreadable { token }))
            })
            .collect();
        for &(glob, skipped, value) in &globs {
            if let Err(why) = scope::PathGlob::new(glob) {
                let message = format!("the glob {} in `{}` cannot be read: {why}", quoted(glob), entry.key);
                self.report_at(value, skipped, glob.len(), Severity::Error, message, "fix the glob");
            }
        }
        for (glob, token) in added {
            if rule.scope.contains(&token) || rule.scope.len() >= MAX_TOKENS {
                continue;
            }
            if let Some(&(_, skipped, value)) = globs.iter().find(|(known, ..)| *known == glob) {
                self.locate(Part::Scope, rule.scope.len(), value, skipped, glob.len());
            }
            rule.scope.push(token);
        }
        if rule.conditions.is_empty() && !globs.is_empty() {
            rule.conditions.push(Condition { source: ".*".to_owned(), flags: flags.to_owned() });
        }
    }

    /// Reports a condition without a pattern.
    fn empty_condition(&mut self, entry: &Entry) {
        let is_empty = match &entry.value.node {
            Node::Scalar { kind: Kind::Null, .. } => true,
            Node::Scalar { text, kind: Kind::Text, .. } => text.trim().is_empty(),
            Node::List(values) => values.is_empty(),
            Node::Scalar { .. } | Node::Map(_) => false,
        };
        if !is_empty {
            return;
        }
        let part = if entry.key == "astCondition" { Part::AstCondition } else { Part::Condition };
        self.locate(part, 0, &entry.value, 0, 1);
        let message = format!("{} is empty", quoted(&entry.written));
        let example = if part == Part::AstCondition { "f($$$ARGS)" } else { "PATTERN" };
        let help = self.commented_out(entry).unwrap_or_else(|| format!("write `{}: '{example}'`", entry.written));
        self.report_key(entry, Severity::Error, message, &help);
    }

    /// Returns a hint when the value of a key is a comment or a tag of YAML.
    fn commented_out(&self, entry: &Entry) -> Option<String> {
        let line = self.front.text.get(entry.at..)?.lines().next()?;
        let value = line.split_once(':')?.1.trim();
        let example = quoted(&format!("{}: '{}'", entry.written, value.replace('\'', "''")));
        let what = match value.chars().next()? {
            '#' => "a comment",
            '!' => "a tag of YAML",
            '&' => "an anchor of YAML",
            _ => return None,
        };
        let first = quoted(&value[..1]);
        Some(format!("{first} begins {what}; put the value in quotes: {example}"))
    }

    /// Reports patterns of ast-grep that fit no language.
    fn ast_conditions(&mut self, rule: &Rule) {
        let (_, problems) = AstPatterns::compile(&rule.ast_conditions);
        for problem in problems {
            let message = format!("astCondition {} {}", problem.index + 1, problem.message);
            // The part after the last semicolon is the help.
            let (message, help) = match message.rsplit_once("; ") {
                Some((message, help)) => (message.to_owned(), Some(help.to_owned())),
                None => (message, None),
            };
            let severity = if problem.is_doubt { Severity::Note } else { Severity::Error };
            let found = self.places.report(self.path, (Part::AstCondition, problem.index), severity, message, help);
            self.diagnostics.push(found);
        }
    }

    /// Reports a pattern in double quotes whose escape means another character in YAML.
    fn escaped_by_yaml(&mut self, item: &Item<'_>, number: usize, key: &str) {
        if !matches!(item.value.node, Node::Scalar { style: Style::Double, .. }) {
            return;
        }
        let Some((at, c)) = item.text.char_indices().find(|(_, c)| matches!(c, '\u{8}' | '\u{2029}')) else { return };
        let start = item.value.offset_of(&self.front.text, item.skipped + at);
        let written: String = self.front.text.get(start..).unwrap_or_default().chars().take(2).collect();
        let meant = if c == '\u{8}' { "a backspace" } else { "the end of a paragraph" };
        let message =
            format!("{key} {number}: in double quotes {} is {meant}, which text rarely contains", quoted(&written));
        let raw = self.front.text.get(item.value.at..).unwrap_or_default();
        let raw = raw.strip_prefix('"').and_then(|raw| raw.lines().next()?.rsplit_once('"')).map(|(raw, _)| raw);
        let help = match raw {
            Some(raw) if !raw.contains(['\'', '"']) => {
                format!("put it in single quotes: {}", quoted(&format!("'{raw}'")))
            }
            _ => "put it in single quotes ('...')".to_owned(),
        };
        self.report_at(item.value, item.skipped + at, c.len_utf8(), Severity::Error, message, &help);
    }

    fn scope(&mut self, rule: &mut Rule, entry: &Entry) {
        for (at, token, value) in self.tokens(entry) {
            let parsed = scope::parse_token(&token).unwrap_or_else(|(why, help)| {
                let message = format!("scope {} {why}", quoted(&token));
                self.report_at(value, at, token.len(), Severity::Error, message, &help);
                ScopeToken::Unreadable { token: token.clone() }
            });
            if let ScopeToken::Tool { name: Some(name), .. } = &parsed
                && let Some((message, help)) = scope::doubt(&token, name, self.is_own())
            {
                self.report_at(value, at, token.len(), Severity::Warning, message, &help);
            }
            if !rule.scope.contains(&parsed) {
                self.locate(Part::Scope, rule.scope.len(), value, at, token.len());
                rule.scope.push(parsed);
            }
        }
    }

    fn globs(&mut self, rule: &mut Rule, entry: &Entry) {
        let mut found = Vec::new();
        for item in self.items(entry) {
            if self.format == Format::Cursor {
                found.extend(
                    scope::split(item.text).into_iter().map(|(at, glob)| (item.skipped + at, glob, item.value)),
                );
            } else {
                if scope::split(item.text).len() > 1 {
                    let message = format!("the comma in {} is part of the glob", quoted(item.text));
                    let help = "write a list: `globs: ['*.ts', '*.tsx']`";
                    self.report_at(item.value, item.skipped, item.text.len(), Severity::Warning, message, help);
                }
                found.push((item.skipped, item.text, item.value));
            }
        }
        for (at, glob, value) in found {
            if rule.globs.iter().any(|known| known == glob) || rule.globs.len() >= MAX_TOKENS {
                continue;
            }
            self.locate(Part::Glob, rule.globs.len(), value, at, glob.len());
            if let Err(why) = scope::PathGlob::new(glob) {
                let message = format!("the glob {} cannot be read: {why}", quoted(glob));
                self.report_at(
                    value,
                    at,
                    glob.len(),
                    Severity::Error,
                    message,
                    "correct this glob; the other globs of the rule are used",
                );
            }
            rule.globs.push(glob.to_owned());
        }
    }

    fn flags(&mut self, entry: &Entry) -> String {
        let mut flags = String::new();
        for item in self.items(entry) {
            for (at, flag) in item.text.char_indices() {
                let why = match flag {
                    'i' | 'm' | 's' | 'u' | 'v' => {
                        add_flag(&mut flags, flag);
                        continue;
                    }
                    // The flag affects only the reported positions of groups.
                    'd' => continue,
                    'g' | 'y' => "makes an expression remember where it stopped",
                    _ => "is not a flag of JavaScript",
                };
                let message = format!("flag {} {why}", quoted(&flag.to_string()));
                self.report_at(
                    item.value,
                    item.skipped + at,
                    flag.len_utf8(),
                    Severity::Error,
                    message,
                    "use any of i, m, s, u, v",
                );
            }
        }
        if flags.contains('u') && flags.contains('v') {
            flags.retain(|flag| flag != 'u');
            let message = "the flags `u` and `v` exclude each other; `v` is used".to_owned();
            self.report_key(entry, Severity::Warning, message, "remove `u`");
        }
        flags
    }

    /// Returns the texts of a value or of a list.
    fn items<'e>(&mut self, entry: &'e Entry) -> Vec<Item<'e>> {
        let values = match &entry.value.node {
            Node::List(values) => values.as_slice(),
            _ => std::slice::from_ref(&entry.value),
        };
        let mut items = Vec::new();
        for value in values {
            match &value.node {
                Node::Scalar { text, kind: Kind::Text, .. } => {
                    // pi-ttsr keeps the white space inside quotes.
                    let trimmed = if self.is_ttsr { text } else { text.trim() };
                    if !trimmed.is_empty() {
                        let skipped = if self.is_ttsr { 0 } else { text.len() - text.trim_start().len() };
                        items.push(Item { text: trimmed, skipped, value });
                    }
                }
                Node::Scalar { text, kind: Kind::Null, .. } if text.is_empty() => {
                    let message = format!("{}: an item is empty, and is left out", entry.key);
                    let help = "write it in single quotes ('...'); `#` begins a comment";
                    // An empty item has the position of the next item, so the key is marked.
                    self.report_key(entry, Severity::Warning, message, help);
                }
                Node::Scalar { text, kind, .. } => {
                    let what = match kind {
                        Kind::Number => "a number",
                        Kind::Bool(_) => "a boolean",
                        Kind::Null | Kind::Text => "null",
                    };
                    let message = format!("{}: {} is {what} instead of text, and is ignored", entry.key, quoted(text));
                    let help = format!("put it in quotes: '{}'", printable(text));
                    self.report_at(value, 0, text.len(), Severity::Error, message, &help);
                }
                Node::List(_) | Node::Map(_) => {
                    let message = format!("{}: a list or a map is ignored here, because text is expected", entry.key);
                    self.report_at(value, 0, 1, Severity::Error, message, "put the text in single quotes ('...')");
                }
            }
        }
        items
    }

    /// Returns the tokens of a list, which is written with commas or as a YAML list.
    fn tokens<'e>(&mut self, entry: &'e Entry) -> Vec<(usize, String, &'e Value)> {
        let mut tokens = Vec::new();
        for item in self.items(entry) {
            tokens.extend(
                scope::split(item.text)
                    .into_iter()
                    .map(|(at, token)| (item.skipped + at, token.to_owned(), item.value)),
            );
        }
        if tokens.len() > MAX_TOKENS {
            tokens.truncate(MAX_TOKENS);
            let message = format!("`{}` has more than {MAX_TOKENS} items; the others are left out", entry.key);
            self.report_key(entry, Severity::Error, message, "use globs, such as `tool:edit(*.{ts,tsx})`");
        }
        tokens
    }

    fn has_room<T>(&mut self, conditions: &[T], entry: &Entry) -> bool {
        if conditions.len() < MAX_CONDITIONS {
            return true;
        }
        let message = format!("`{}` has more than {MAX_CONDITIONS} items; the others are left out", entry.key);
        if !self.diagnostics.iter().any(|found| found.message == message) {
            self.report_key(entry, Severity::Error, message, "join some of them with `|`, or split the rule");
        }
        false
    }

    fn text(&mut self, entry: &Entry) -> Option<String> {
        match &entry.value.node {
            Node::Scalar { text, kind: Kind::Text, .. } => Some(text.clone()),
            _ => {
                let message = format!("`{}` is not text, and is ignored", entry.key);
                self.report_key(entry, Severity::Warning, message, "put the value in quotes");
                None
            }
        }
    }

    /// Returns a Boolean value; `otherwise` if the value is neither `true` nor `false`.
    fn flag(&mut self, entry: &Entry, otherwise: bool) -> bool {
        match &entry.value.node {
            Node::Scalar { kind: Kind::Bool(value), .. } => *value,
            Node::Scalar { text, .. } if self.is_ttsr && (text == "true" || text == "false") => text == "true",
            node => {
                let shown = match node {
                    Node::Scalar { text, kind: Kind::Text, .. } => format!("the text {}", quoted(text)),
                    Node::Scalar { text, .. } => quoted(text),
                    _ => "a list or a map".to_owned(),
                };
                let message =
                    format!("`{}` is {shown} instead of true or false, and is read as {otherwise}", entry.key);
                let help = format!("write `{0}: true` or `{0}: false`, without quotes", entry.key);
                let meant = match node {
                    Node::Scalar { text, .. } => keys::meant_flag(text),
                    _ => None,
                };
                let severity = if meant == Some(otherwise) { Severity::Warning } else { Severity::Error };
                self.report_at(&entry.value, 0, 1, severity, message, &help);
                otherwise
            }
        }
    }

    fn choice<T: Copy>(&mut self, entry: &Entry, values: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        self.choice_or(entry, values, &format!("write one of {}", names.join(", ")))
    }

    /// Returns the value of a name. `help` is the hint if no name is similar.
    fn choice_or<T: Copy>(&mut self, entry: &Entry, values: &[(&str, T)], help: &str) -> Option<T> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let text = match &entry.value.node {
            Node::Scalar { text, .. } => text.as_str(),
            _ => "a list or a map",
        };
        if let Some((_, value)) = values.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let message = format!("`{}` cannot be {}", entry.key, quoted(text));
        let all = names.join(", ");
        let help = match similar(text, names) {
            Some(name) => format!("did you mean `{name}`? It is one of {all}"),
            None => help.to_owned(),
        };
        self.report_at(&entry.value, 0, text.len(), Severity::Error, message, &help);
        None
    }

    fn number(&mut self, entry: &Entry, what: &str, is_valid: impl Fn(f64) -> bool) -> Option<f64> {
        let text = match &entry.value.node {
            Node::Scalar { text, .. } => text.trim(),
            _ => "a list or a map",
        };
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && is_valid(*number));
        if number.is_none() {
            let message = format!("`{}` cannot be {}", entry.key, quoted(text));
            self.report_at(&entry.value, 0, text.len(), Severity::Error, message, &format!("write {what}"));
        }
        number
    }

    /// Reports keys that have no effect. A key that is a misspelling of a known one is an error, because a part of the rule does
    /// not work; other programs have keys of their own.
    fn report_unknown(&mut self, rule: &Rule, entries: &[Entry]) {
        let has_condition = !rule.conditions.is_empty() || !rule.ast_conditions.is_empty() || rule.question.is_some();
        let is_ttsr = self.is_ttsr;
        for entry in entries.iter().filter(|entry| !keys::is_known(&entry.key, is_ttsr)) {
            let meant = keys::meant(&entry.key);
            let is_condition = meant.is_some_and(|meant| CONDITIONS.contains(&meant));
            let lost_condition = is_condition && !has_condition;
            let severity = match meant {
                Some(_) if self.is_own() || lost_condition => Severity::Error,
                _ => Severity::Warning,
            };
            let mut message = format!("unknown key {}", quoted(&entry.written));
            if lost_condition {
                let excerpt = Excerpt::new(self.file, self.front.origin(entry.at), entry.written.len());
                self.places.insert(Part::UnknownCondition, 0, excerpt);
                message.push_str(", so the rule has no condition");
            }
            let help = meant.map(|meant| format!("did you mean `{meant}`?"));
            let help = help.unwrap_or_else(|| keys::without_effect(&entry.key).to_owned());
            self.report_key(entry, severity, message, &help);
        }
    }

    /// Returns whether the file is one of PiJS, and not of another program.
    fn is_own(&self) -> bool {
        matches!(self.format, Format::Pi | Format::BuiltIn)
    }

    /// Resolves a byte range of a value's text.
    fn excerpt(&self, value: &Value, at: usize, length: usize) -> Excerpt {
        let start = value.offset_of(&self.front.text, at);
        let end = value.offset_of(&self.front.text, at + length);
        let (start, end) = (self.front.origin(start), self.front.origin(end));
        Excerpt::new(self.file, start, end.saturating_sub(start))
    }

    fn locate(&mut self, part: Part, index: usize, value: &Value, at: usize, length: usize) {
        let excerpt = self.excerpt(value, at, length);
        self.places.insert(part, index, excerpt);
    }

    fn report_at(&mut self, value: &Value, at: usize, length: usize, severity: Severity, message: String, help: &str) {
        let excerpt = self.excerpt(value, at, length);
        self.report(&excerpt, severity, message, Some(help.to_owned()));
    }

    fn report_key(&mut self, entry: &Entry, severity: Severity, message: String, help: &str) {
        let (at, length, help) = (entry.at, entry.written.len(), Some(help.to_owned()));
        self.report_finding(Finding { severity, at, length, message, help });
    }

    fn report_finding(&mut self, finding: Finding) {
        let start = self.front.origin(finding.at);
        let excerpt = Excerpt::new(self.file, start, finding.length);
        self.report(&excerpt, finding.severity, finding.message, finding.help);
    }

    fn report(&mut self, excerpt: &Excerpt, severity: Severity, message: String, help: Option<String>) {
        self.diagnostics.push(excerpt.report(self.path, severity, message, help));
    }
}
