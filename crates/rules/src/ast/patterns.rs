//! Patterns compiled for each language, and the search for all of them in one walk over the tree.

use super::document::Document;
use super::{AstHit, AstLanguage, AstLimit, AstPatternProblem, AstScan, MAX_PATTERN, MAX_TEXT};
use ast_grep_core::matcher::{MatcherExt, PatternNode};
use ast_grep_core::{AstGrep, Matcher, Pattern, PatternError};
use std::fmt;

/// Function in which a Go statement is parsed. The body is on separate lines.
const GO_FUNCTION: (&str, &str) = ("func _() {\n", "\n}\n");

/// Patterns of ast-grep, compiled for each language.
///
/// ```
/// # #[cfg(feature = "ast")] {
/// use pijs_rules::ast::{AstLanguage, AstPatterns, DEFAULT_BUDGET};
///
/// let (patterns, problems) = AstPatterns::compile(&["console.debug($$$ARGS)".to_owned()]);
/// assert!(problems.is_empty());
///
/// let text = "function f() { console.debug('x', 1) }";
/// let hit = patterns.find(AstLanguage::TypeScript, text, DEFAULT_BUDGET).unwrap().unwrap();
/// assert_eq!(&text[hit.range], "console.debug('x', 1)");
///
/// let comment = "// console.debug('x', 1)";
/// assert_eq!(patterns.find(AstLanguage::TypeScript, comment, DEFAULT_BUDGET), Ok(None));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct AstPatterns {
    /// Number of patterns.
    count: usize,
    /// Compiled patterns, in the order of [`AstLanguage::ALL`].
    languages: Vec<LanguagePatterns>,
}

/// The patterns of one language.
#[derive(Default)]
struct LanguagePatterns {
    /// The readings of all patterns, in the order of the patterns.
    readings: Vec<Reading>,
    /// Indexes of readings by the kind of their root node.
    by_kind: Vec<Vec<usize>>,
    /// Indexes of readings that match a node of any kind.
    of_any_kind: Vec<usize>,
    /// For each pattern, the reason why it cannot match, or may match text other than its author means.
    problems: Vec<Option<Problem>>,
}

/// One way to parse a pattern. A Go statement has two: on its own, and in a function.
struct Reading {
    /// Index of the pattern.
    index: usize,
    /// The tree to match.
    pattern: Pattern,
    /// Text that every match contains.
    required: String,
}

/// The reason why a pattern does not fit a language.
#[derive(Debug, Clone)]
struct Problem {
    /// The message.
    message: String,
    /// Whether the pattern has no reading at all.
    unusable: bool,
    /// Whether the mistake is inside a complete expression or statement.
    is_doubt: bool,
}

impl AstPatterns {
    /// Compiles patterns for every language.
    ///
    /// A problem is returned for each pattern that fits none of the languages. [`AstPatterns::problem`] returns it for one
    /// language, for a rule that covers only files of that language.
    pub fn compile(patterns: &[String]) -> (Self, Vec<AstPatternProblem>) {
        let languages: Vec<_> =
            AstLanguage::ALL.iter().map(|language| LanguagePatterns::compile(*language, patterns)).collect();
        let problems = patterns.iter().enumerate().filter_map(|(index, pattern)| {
            let problems: Option<Vec<_>> = languages.iter().map(|of| of.problems[index].clone()).collect();
            // A pattern with a reading in some language is usable; its problem is reported for the first such language.
            let problem = problems?.into_iter().min_by_key(|problem| (problem.unusable, !problem.is_doubt))?;
            Some(AstPatternProblem {
                index,
                pattern: pattern.clone(),
                message: problem.message,
                unusable: problem.unusable,
                is_doubt: problem.is_doubt,
            })
        });
        let problems = problems.collect();
        (Self { count: patterns.len(), languages }, problems)
    }

    /// Returns the number of patterns.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the reason why a pattern does not fit a language: a syntax error, or more than one statement.
    pub fn problem(&self, index: usize, language: AstLanguage) -> Option<&str> {
        self.of(language)?.problems.get(index)?.as_ref().map(|problem| problem.message.as_str())
    }

    /// Returns the first hit of any pattern: the first matching node in text order, with the first pattern that matches it.
    ///
    /// The budget is a number of steps, [`super::DEFAULT_BUDGET`] for a text of any size. `Err` means that a limit ended the
    /// search before a hit was found.
    pub fn find(&self, language: AstLanguage, text: &str, budget: u64) -> Result<Option<AstHit>, AstLimit> {
        let scan = self.search(language, text, budget, &|_| true, true);
        match (scan.hits.into_iter().next(), scan.limit) {
            (None, Some(limit)) => Err(limit),
            (hit, _) => Ok(hit),
        }
    }

    /// Returns the first hit of each wanted pattern. The text is parsed once, and only if it contains the names and literals of
    /// at least one pattern.
    pub fn find_each(&self, language: AstLanguage, text: &str, budget: u64, wanted: impl Fn(usize) -> bool) -> AstScan {
        self.search(language, text, budget, &wanted, false)
    }

    /// Finds the first hit of each pattern, or of any pattern.
    fn search(
        &self,
        language: AstLanguage,
        text: &str,
        budget: u64,
        wanted: &dyn Fn(usize) -> bool,
        first_only: bool,
    ) -> AstScan {
        let Some(patterns) = self.of(language) else {
            return AstScan::default();
        };
        let mut search = Search { patterns, open: Vec::new(), first_only, scan: AstScan::default() };
        search.open = patterns.readings.iter().map(|of| wanted(of.index) && text.contains(&of.required)).collect();
        if search.is_over() {
            return search.scan;
        }
        if text.len() > MAX_TEXT {
            search.scan.limit = Some(AstLimit::TextTooLarge);
            return search.scan;
        }
        search.run(language, text, budget);
        search.scan.hits.sort_by_key(|hit| (hit.range.start, std::cmp::Reverse(hit.range.end), hit.pattern));
        search.scan
    }

    /// Returns the patterns of a language.
    fn of(&self, language: AstLanguage) -> Option<&LanguagePatterns> {
        self.languages.get(AstLanguage::ALL.iter().position(|other| *other == language)?)
    }
}

/// The search of one text.
struct Search<'a> {
    /// The patterns.
    patterns: &'a LanguagePatterns,
    /// For each reading, whether the search still looks for it.
    open: Vec<bool>,
    /// Whether the first hit ends the search.
    first_only: bool,
    /// The hits so far.
    scan: AstScan,
}

impl Search<'_> {
    /// Returns whether no reading is left to look for.
    fn is_over(&self) -> bool {
        self.first_only && !self.scan.hits.is_empty() || !self.open.contains(&true)
    }

    /// Searches a text. A Go text that may be statements is searched again inside a function.
    fn run(&mut self, language: AstLanguage, text: &str, budget: u64) {
        let left = self.run_document(language, text, ("", ""), budget);
        let may_go_on = !self.is_over() && self.scan.limit != Some(AstLimit::OutOfBudget);
        if language == AstLanguage::Go
            && may_go_on
            && let Some(left) = left.filter(|_| !is_go_file(text))
        {
            self.run_document(language, text, GO_FUNCTION, left);
        }
    }

    /// Searches a text between the two parts of `around`; returns the remaining budget.
    fn run_document(&mut self, language: AstLanguage, text: &str, around: (&str, &str), budget: u64) -> Option<u64> {
        let source = [around.0, text, around.1].concat();
        let root = match Document::parse(source, language, budget) {
            Ok(document) => AstGrep::doc(document),
            Err(limit) => {
                self.scan.limit = Some(limit);
                return None;
            }
        };
        let top = root.root();
        let document = top.get_doc();
        let within = around.0.len()..around.0.len() + text.len();
        let patterns = self.patterns;
        for node in top.dfs() {
            if !document.work().charge(1) {
                break;
            }
            let hits = self.scan.hits.len();
            for reading in patterns.candidates(node.kind_id()) {
                if !self.open[reading] {
                    continue;
                }
                let Reading { index, pattern, .. } = &patterns.readings[reading];
                let matches = pattern.match_node(node.clone()).is_some();
                if let Some(limit) = document.work().take_limit() {
                    // Nodes lost their children during the match, so its result is invalid.
                    self.scan.limit = Some(limit);
                    if limit == AstLimit::OutOfBudget {
                        return None;
                    }
                } else if matches && within.contains(&node.range().start) {
                    let end = node.range().end.min(within.end) - within.start;
                    self.add(*index, node.range().start - within.start..end);
                }
            }
            if self.scan.hits.len() > hits && self.is_over() {
                break;
            }
        }
        if let Some(limit) = document.work().take_limit() {
            self.scan.limit = Some(limit);
        }
        Some(document.work().left())
    }

    /// Adds a hit of a pattern, and stops searching for that pattern.
    fn add(&mut self, index: usize, range: std::ops::Range<usize>) {
        self.scan.hits.push(AstHit { pattern: index, range });
        for (reading, open) in self.patterns.readings.iter().zip(&mut self.open) {
            *open &= reading.index != index;
        }
    }
}

/// Returns whether a Go text begins like a file, after comments.
fn is_go_file(text: &str) -> bool {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let comment_end = if rest.starts_with("//") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|at| at + 2)
        } else {
            return rest.strip_prefix("package").is_some_and(|rest| rest.starts_with(char::is_whitespace));
        };
        match comment_end {
            Some(end) => rest = rest[end..].trim_start(),
            None => return false,
        }
    }
}

impl LanguagePatterns {
    /// Compiles patterns for a language.
    fn compile(language: AstLanguage, patterns: &[String]) -> Self {
        let mut compiled = Self::default();
        for (index, source) in patterns.iter().enumerate() {
            let problem = match read(language, source) {
                Ok((readings, message)) => {
                    for pattern in readings {
                        compiled.add(index, pattern);
                    }
                    message
                }
                Err(message) => Some(Problem { message, unusable: true, is_doubt: false }),
            };
            compiled.problems.push(problem);
        }
        compiled
    }

    /// Adds a reading of a pattern.
    fn add(&mut self, index: usize, pattern: Pattern) {
        let reading = self.readings.len();
        match pattern.potential_kinds() {
            Some(kinds) => {
                for kind in kinds.iter() {
                    if self.by_kind.len() <= kind {
                        self.by_kind.resize_with(kind + 1, Vec::new);
                    }
                    self.by_kind[kind].push(reading);
                }
            }
            None => self.of_any_kind.push(reading),
        }
        let required = required_text(&pattern.node).to_owned();
        self.readings.push(Reading { index, pattern, required });
    }

    /// Returns the readings that can match a node of a kind.
    fn candidates(&self, kind: u16) -> impl Iterator<Item = usize> + '_ {
        let of_kind = self.by_kind.get(usize::from(kind)).map(Vec::as_slice).unwrap_or_default();
        of_kind.iter().chain(&self.of_any_kind).copied()
    }
}

impl fmt::Debug for LanguagePatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.readings.iter().map(|reading| &reading.pattern)).finish()
    }
}

/// Returns the longest name or literal of a pattern. Strictness `smart` compares these verbatim and skips none.
fn required_text(node: &PatternNode) -> &str {
    match node {
        PatternNode::Terminal { text, is_named: true, .. } => text,
        PatternNode::Terminal { .. } | PatternNode::MetaVar { .. } => "",
        PatternNode::Internal { children, .. } => {
            children.iter().map(required_text).max_by_key(|text| text.len()).unwrap_or_default()
        }
    }
}

/// Parses a pattern. Returns its readings, at least one, and a problem if all of them have a syntax error.
fn read(language: AstLanguage, source: &str) -> Result<(Vec<Pattern>, Option<Problem>), String> {
    if source.len() > MAX_PATTERN {
        return Err(format!("is longer than {} KiB; write a shorter pattern", MAX_PATTERN >> 10));
    }
    let alone = Pattern::try_new(source, language).map_err(|error| message(&error));
    let in_function = if language == AstLanguage::Go { read_in_function(source) } else { None };
    let error = syntax_error(language, source);
    match (alone, in_function) {
        (Ok(alone), Some(in_function)) if is_same(&alone.node, &in_function.node) => Ok((vec![alone], None)),
        (Ok(alone), Some(in_function)) => Ok((vec![alone, in_function], None)),
        (Ok(alone), None) => Ok((vec![alone], error)),
        (Err(_), Some(in_function)) => Ok((vec![in_function], None)),
        (Err(message), None) => Err(message),
    }
}

/// Returns whether two patterns match the same trees.
fn is_same(one: &PatternNode, other: &PatternNode) -> bool {
    use PatternNode::{Internal, MetaVar, Terminal};
    match (one, other) {
        (MetaVar { meta_var: one }, MetaVar { meta_var: other }) => one == other,
        (Terminal { text: one, kind_id: a, .. }, Terminal { text: other, kind_id: b, .. }) => a == b && one == other,
        (Internal { kind_id: a, children: one }, Internal { kind_id: b, children: other }) => {
            a == b && one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        _ => false,
    }
}

/// Parses a pattern as a statement or expression in a Go function; `None` if that has a syntax error.
///
/// Without a line break after it, Go's grammar parses `time.Sleep($D)` as a conversion to the type `time.Sleep`, which matches no
/// call in a file.
fn read_in_function(source: &str) -> Option<Pattern> {
    use ast_grep_core::Language;
    let language = AstLanguage::Go;
    let source = language.pre_process_pattern(source.trim());
    let (before, after) = GO_FUNCTION;
    let document = Document::parse_pattern(&[before, &source, after].concat(), language).ok()?;
    if document.first_error().is_some() {
        return None;
    }
    let range = before.len()..before.len() + source.len();
    let root = AstGrep::doc(document);
    let top = root.root();
    let document = top.get_doc();
    let node = document.tree().root_node().descendant_for_byte_range(range.start, range.end)?;
    let whole = node.byte_range() == range && !matches!(node.kind(), "block" | "statement_list" | "comment");
    let pattern = whole.then(|| Pattern::from(root.adopt(document.counted(node))))?;
    // A single metavariable has only one reading, with the check of `$$$A`.
    (!matches!(pattern.node, PatternNode::MetaVar { .. })).then_some(pattern)
}

/// Returns the first syntax error of a pattern.
fn syntax_error(language: AstLanguage, source: &str) -> Option<Problem> {
    use ast_grep_core::Language;
    let document = Document::parse_pattern(&language.pre_process_pattern(source), language).ok()?;
    let before = document.source().get(..document.first_error()?)?;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let is_doubt = !document.is_broken();
    let what = if is_doubt { "may match only" } else { "matches only" };
    let message = format!(
        "has a syntax error in {language} at line {line}, column {column}, and {what} code that is broken in the same way; write \
         a whole expression, statement or declaration"
    );
    Some(Problem { message, unusable: false, is_doubt })
}

/// Returns the message for a pattern that ast-grep rejects.
fn message(error: &PatternError) -> String {
    match error {
        PatternError::Parse(message) => message.clone(),
        PatternError::NoContent(_) => {
            "contains no code; write an expression or a statement, such as `console.debug($$$ARGS)`".to_owned()
        }
        PatternError::MultipleNode(_) => {
            "is more than one expression or statement; write one of them, or put them into a block".to_owned()
        }
        PatternError::RootMultiMetaVar(_) => {
            "consists of `$$$` alone; write `$NAME` for one node, or put it into code such as `f($$$ARGS)`".to_owned()
        }
        error @ (PatternError::InvalidKind(_) | PatternError::NoSelectorInContext { .. }) => error.to_string(),
    }
}
