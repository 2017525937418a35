//! Finds rules that do not work as written, over all files of a session.
//!
//! [`lint`] returns the findings of [`crate::file::parse`] and adds the findings that need the whole rule, the settings or the
//! other files.

use crate::activity::{self, Reason};
use crate::diagnostic::{Diagnostic, Severity, printable, quoted};
use crate::file::{ParsedFile, Part};
use crate::rule::{InterruptMode, Origin, Rule, ScopeToken};
use crate::scope::{self, CompiledScope};
use crate::settings::RuleSettings;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns all findings, by file, line and column. `files` are in the order in which they were read.
///
/// A finding is an error when a rule or a part of it cannot work, a warning when it probably does not work as intended, and a
/// note when it does. Settings that disable rules are not findings.
pub fn lint(files: &[ParsedFile], settings: &RuleSettings) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = files.iter().flat_map(|file| &file.diagnostics).cloned().collect();
    for file in files {
        for rule in &file.rules {
            let mut linter = Linter { file, rule, found: &mut found };
            linter.activity();
            linter.scope();
            linter.languages();
            linter.globs();
            linter.patterns();
            linter.interrupts(settings);
        }
    }
    found.extend(duplicates(files));
    found.sort_by(|a, b| {
        (&a.path, a.line, a.column, a.severity, &a.message).cmp(&(&b.path, b.line, b.column, b.severity, &b.message))
    });
    found.dedup();
    found
}

/// Returns the errors of each file that has any, by path. A session, `pi rules list` and `pi rules lint` report these.
pub fn errors(files: &[ParsedFile], settings: &RuleSettings) -> BTreeMap<PathBuf, Vec<Diagnostic>> {
    let mut errors: BTreeMap<PathBuf, Vec<Diagnostic>> = BTreeMap::new();
    for finding in lint(files, settings).into_iter().filter(|finding| finding.severity == Severity::Error) {
        errors.entry(finding.path.clone()).or_default().push(finding);
    }
    errors
}

/// Returns one line for each file with an error: the first error, and the number of others.
pub fn error_lines(files: &[ParsedFile], settings: &RuleSettings) -> Vec<String> {
    let line = |errors: Vec<Diagnostic>| {
        let (first, others) = errors.split_first()?;
        let more = match others.len() {
            0 => String::new(),
            1 => "; 1 more error in this file".to_owned(),
            more => format!("; {more} more errors in this file"),
        };
        Some(format!("{}{more}; to check it: pi rules lint", first.brief()))
    };
    errors(files, settings).into_values().filter_map(line).collect()
}

struct Linter<'a> {
    file: &'a ParsedFile,
    rule: &'a Rule,
    found: &'a mut Vec<Diagnostic>,
}

impl Linter<'_> {
    fn report(&mut self, part: (Part, usize), severity: Severity, message: String, help: &str) {
        let help = (!help.is_empty()).then(|| help.to_owned());
        self.found.push(self.file.places.report(&self.file.path, part, severity, message, help));
    }

    /// Reports a rule that reads no stream. Mistakes that parsing reported are not repeated.
    fn activity(&mut self) {
        let Some(reason) = activity::not_a_stream_rule(self.rule) else { return };
        let is_used = reason != Reason::Judged && (self.rule.always_apply || self.rule.description.is_some());
        let (severity, text) = match is_used {
            true => (Severity::Warning, "the rule never fires; only its text is used"),
            false => (Severity::Error, "the rule is never used"),
        };
        let (part, help) = match reason {
            // Parsing reported the reason.
            Reason::NoValidCondition => return,
            Reason::NoCondition if !self.file.has_front_matter => return,
            Reason::NoCondition if self.has_empty_condition() => return,
            Reason::NoCondition if self.file.places.has((Part::UnknownCondition, 0)) => return,
            Reason::NoCondition if is_used || !self.rule.globs.is_empty() => return,
            Reason::NoCondition => {
                (Part::Rule, "add `condition: 'PATTERN'`, or `alwaysApply: true`, or a `description`")
            }
            Reason::UnreachableScope => (Part::Scope, "fix the scope, or remove it to read text and every tool"),
            Reason::GlobsWithoutTool => (Part::Glob, "remove `globs`, or add `tool` to the scope"),
            Reason::NoValidGlob => (Part::Glob, "fix one of its globs"),
            Reason::ProseOfTools => (Part::Where, "write `where: any`, or add `text` to the scope"),
            Reason::Judged => (Part::Question, "replace `question` by a `condition`"),
            Reason::RulesOff
            | Reason::BuiltInOff
            | Reason::DisabledBySettings
            | Reason::Shadowed { .. }
            | Reason::OtherAgents { .. } => return,
        };
        self.report((part, 0), severity, format!("{text}: {reason}"), help);
    }

    /// Reports whether the file has the key of a condition without a pattern.
    fn has_empty_condition(&self) -> bool {
        [Part::Condition, Part::AstCondition].into_iter().any(|part| self.file.places.has((part, 0)))
    }

    fn scope(&mut self) {
        let never: Vec<Option<String>> =
            self.rule.scope.iter().map(|token| scope::never_matches(token, &self.rule.globs)).collect();
        let severity = if never.contains(&None) { Severity::Warning } else { Severity::Error };
        for (at, why) in never.into_iter().enumerate() {
            let Some(why) = why else { continue };
            let message = format!("scope `{}` never matches: {why}", self.rule.scope[at]);
            self.report((Part::Scope, at), severity, message, "remove the glob, or the token");
        }
        if self.rule.globs.is_empty() || !self.rule.scope.iter().any(|token| matches!(token, ScopeToken::Tool { .. })) {
            return;
        }
        for (at, token) in self.rule.scope.iter().enumerate() {
            if matches!(token, ScopeToken::Text | ScopeToken::Thinking) {
                let message = format!("scope `{token}` has no path, so `globs` can never match there");
                let help = format!("remove `{token}`, or write the globs into the tools: `tool(*.ts)`");
                self.report((Part::Scope, at), Severity::Warning, message, &help);
            }
        }
    }

    /// Reports AST conditions that never match, since no path in scope is of a language that they support.
    fn languages(&mut self) {
        if self.rule.ast_conditions.is_empty() || activity::not_a_stream_rule(self.rule).is_some() {
            return;
        }
        let (globs, scope) = (&self.rule.globs, &self.rule.scope);
        let mut found: Vec<((Part, usize), String)> = Vec::new();
        let is_dead = if !globs.is_empty() && globs.iter().all(|glob| scope::is_of_no_language(glob)) {
            found.push(((Part::Glob, 0), "no file of `globs` is in a language that it reads".to_owned()));
            true
        } else {
            let never: Vec<Option<String>> = scope.iter().map(scope::has_no_language).collect();
            let is_alive = |(why, token): (&Option<String>, &ScopeToken)| match token {
                ScopeToken::Tool { .. } => why.is_none(),
                // A code block names its language and has no path.
                ScopeToken::Text | ScopeToken::Thinking => globs.is_empty(),
                ScopeToken::Unreadable { .. } => false,
            };
            let is_dead = !scope.is_empty() && !never.iter().zip(scope).any(is_alive);
            found.extend(never.into_iter().enumerate().filter_map(|(at, why)| Some(((Part::Scope, at), why?))));
            is_dead
        };
        let has_others = !self.rule.conditions.is_empty();
        if has_others && !is_dead {
            // The globs may be meant for the other tools.
            return;
        }
        let is_error = is_dead && !has_others;
        let severity = if is_error { Severity::Error } else { Severity::Warning };
        for (part, why) in found {
            let message = format!("`astCondition` never matches here: {why}");
            let help = "name files of TypeScript, JavaScript, Rust, Python or Go, as in `tool:write(*.ts)`, or write a `condition`";
            self.report(part, severity, message, help);
        }
    }

    fn globs(&mut self) {
        let of_scope = self.rule.scope.iter().enumerate().filter_map(|(at, token)| match token {
            ScopeToken::Tool { glob: Some(glob), .. } => Some(((Part::Scope, at), glob)),
            _ => None,
        });
        let of_globs = self.rule.globs.iter().enumerate().map(|(at, glob)| ((Part::Glob, at), glob));
        let all: Vec<((Part, usize), &String)> = of_scope.chain(of_globs).collect();
        for (part, glob) in all {
            let (why, help) = if let Some(rest) = glob.strip_prefix("./") {
                ("matches only a path that is written with `./`", format!("write {}", quoted(rest)))
            } else if glob.starts_with("~/") {
                ("never matches: `~` is not expanded", "write the absolute path".to_owned())
            } else if glob.ends_with('/') {
                ("never matches: a path does not end with `/`", format!("write {}", quoted(&format!("{glob}**"))))
            } else if glob.contains('\\') && !glob.contains('/') {
                (
                    "almost never matches: `\\` escapes the next character",
                    format!("write {}", quoted(&glob.replace('\\', "/"))),
                )
            } else if glob.split('/').any(|part| part == "..") {
                ("almost never matches: paths are resolved", "write the path from the folder of the project".to_owned())
            } else if matches!(part.0, Part::Scope) && scope::split(glob).len() > 1 {
                ("has a comma, which is part of it", "close its `)` before the comma, or write `{a,b}`".to_owned())
            } else if glob.contains("//") {
                ("never matches: it has an empty folder", format!("write {}", quoted(&glob.replace("//", "/"))))
            } else {
                continue;
            };
            self.report(part, Severity::Warning, format!("the glob {} {why}", quoted(glob)), &help);
        }
    }

    fn patterns(&mut self) {
        for (at, condition) in self.rule.conditions.iter().enumerate() {
            let part = (Part::Condition, at);
            // The condition derived from globs is not written in the file.
            let (Ok(report), true) = (condition.check(), self.file.places.has(part)) else { continue };
            if report.matches_empty {
                let message = "this condition matches the empty text, so the rule fires at once".to_owned();
                let help = "let it need a character: `+` instead of `*`, and no `?` around all of it";
                self.report(part, Severity::Warning, message, help);
            } else if let Some(construct) = report.slow {
                let message = format!("{construct} makes this condition slower: the automaton cannot match it exactly");
                self.report(part, Severity::Note, message, "rewrite it without this construct if replies are long");
            }
        }
    }

    fn interrupts(&mut self, settings: &RuleSettings) {
        let mode = self.rule.interrupt_mode.unwrap_or(settings.interrupt_mode);
        let is_deaf = mode != InterruptMode::Never
            && !CompiledScope::new(self.rule).streams().any(|stream| mode.interrupts(stream));
        if !is_deaf || activity::not_a_stream_rule(self.rule).is_some() {
            return;
        }
        let name = if mode == InterruptMode::ToolOnly { "tool-only" } else { "prose-only" };
        let other = if mode == InterruptMode::ToolOnly { "`prose-only`" } else { "`tool-only`" };
        let help =
            format!("write `interruptMode: always` or {other} to stop the reply, or `never` to say so explicitly");
        if self.rule.interrupt_mode.is_some() {
            let message = format!("`interruptMode: {name}` never stops a reply here: the scope has no such stream");
            self.report((Part::InterruptMode, 0), Severity::Warning, message, &help);
        } else {
            let message =
                format!("the rule only reminds: `ttsr.interruptMode` is {name}, and the scope has no such stream");
            self.report((Part::Scope, 0), Severity::Note, message, &help);
        }
    }
}

/// Reports rules that have the name of a rule in another file.
fn duplicates(files: &[ParsedFile]) -> Vec<Diagnostic> {
    let mut winners: BTreeMap<&str, (&ParsedFile, &Rule)> = BTreeMap::new();
    let rules = || files.iter().flat_map(|file| file.rules.iter().map(move |rule| (file, rule)));
    for (file, rule) in rules() {
        let winner = winners.entry(rule.name.as_str()).or_insert((file, rule));
        if rule.origin > winner.1.origin {
            *winner = (file, rule);
        }
    }
    let report = |(file, rule): (&ParsedFile, &Rule)| {
        let (winning, winner) = winners.get(rule.name.as_str())?;
        if std::ptr::eq(*winner, rule) || rule.origin == Origin::BuiltIn {
            return None;
        }
        // A project may replace a rule of the user on purpose.
        let severity = if winner.origin == rule.origin { Severity::Warning } else { Severity::Note };
        let other = printable(&winning.path.display().to_string());
        let message = format!("overridden by another rule of the same name: {other}");
        let help = Some("rename one of the two files to use both".to_owned());
        Some(file.places.report(&file.path, (Part::Rule, 0), severity, message, help))
    };
    rules().filter_map(report).collect()
}
