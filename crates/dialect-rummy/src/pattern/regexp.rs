//! Evaluates regular expressions of ECMAScript within a limit of steps.
//!
//! The engine's own `RegExp` determines the result. In a search over many entries, an automaton runs first and rejects most texts
//! in a fraction of the time.

use super::{PatternError, PatternErrorKind};
use pijs_engine::{OutOfSteps, RegExpId, RegExpVm};
use pijs_matcher::Prefilter;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of the engine's interrupt polls for one text; there is one poll every 10,000 steps.
const MAX_POLLS: u64 = 200;
/// Maximum number of polls of one pattern over all texts of a query.
const MAX_POLLS_OF_QUERY: u64 = 5_000;
/// Maximum number of compiled expressions that a thread caches.
const MAX_COMPILED: usize = 256;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) struct RegExp {
    source: Arc<str>,
    /// Flags without `g` and `y`, which would make a match depend on the previous one.
    flags: Arc<str>,
    replaces_all: bool,
    prefilter: Option<Arc<Prefilter>>,
    /// Number of polls so far, over all texts.
    polls: Arc<AtomicU64>,
}

/// Cache of the engine's expressions of this thread. Results depend on source, flags and text alone.
#[derive(Default)]
struct Compiled {
    vm: Option<RegExpVm>,
    ids: HashMap<(Arc<str>, Arc<str>, bool), RegExpId>,
}

thread_local! {
    static COMPILED: RefCell<Compiled> = RefCell::default();
}

impl RegExp {
    /// Compiles an expression. `always_replaces_all` makes a replacement apply to every match, as in the notation with slashes.
    pub(super) fn parse(source: &str, flags: &str, always_replaces_all: bool) -> Result<Self, PatternError> {
        let replaces_all = always_replaces_all || flags.contains('g');
        let flags = flags.replace(['g', 'y'], "");
        let compiled = Self {
            prefilter: Prefilter::new(source, &flags).map(Arc::new),
            source: source.into(),
            flags: flags.into(),
            replaces_all,
            polls: Arc::default(),
        };
        compiled.with(false, |_, _, _| Ok(()))?;
        Ok(compiled)
    }

    pub(super) fn is_match(&self, text: &str) -> Result<bool, PatternError> {
        Ok(self.find(text)?.is_some())
    }

    pub(super) fn find(&self, text: &str) -> Result<Option<(usize, usize)>, PatternError> {
        match self.prefilter.as_deref() {
            Some(prefilter) if !prefilter.may_match(&mut prefilter.start(), text) => Ok(None),
            _ => self.with(false, |vm, id, polls| vm.matches(id, text, polls)),
        }
    }

    /// Returns the text with the first match or all matches replaced; `None` if nothing matches.
    pub(super) fn replace(&self, text: &str, replacement: &str) -> Result<Option<String>, PatternError> {
        if self.find(text)?.is_none() {
            return Ok(None);
        }
        self.with(self.replaces_all, |vm, id, polls| vm.replace(id, text, replacement, polls)).map(Some)
    }

    fn with<T>(
        &self,
        is_global: bool,
        work: impl FnOnce(&RegExpVm, RegExpId, u64) -> Result<T, OutOfSteps>,
    ) -> Result<T, PatternError> {
        COMPILED.with_borrow_mut(|compiled| {
            if compiled.ids.len() >= MAX_COMPILED {
                *compiled = Compiled::default();
            }
            let syntax = |message: String| {
                let message = format!("the regular expression /{}/{}: {message}", self.source, self.flags);
                PatternError::new(PatternErrorKind::Syntax, message)
            };
            let vm = match &mut compiled.vm {
                Some(vm) => vm,
                none => none.insert(RegExpVm::new().map_err(syntax)?),
            };
            let key = (Arc::clone(&self.source), Arc::clone(&self.flags), is_global);
            let id = match compiled.ids.get(&key) {
                Some(id) => *id,
                None => {
                    let compile = if is_global { RegExpVm::compile_global } else { RegExpVm::compile };
                    let id = compile(vm, &self.source, &self.flags).map_err(syntax)?;
                    compiled.ids.insert(key, id);
                    id
                }
            };
            let left = MAX_POLLS_OF_QUERY.saturating_sub(self.polls.load(Ordering::Relaxed));
            let done = work(vm, id, left.min(MAX_POLLS));
            self.polls.fetch_add(vm.interrupts(), Ordering::Relaxed);
            done.map_err(|error| PatternError::new(PatternErrorKind::Limit, error.to_string()))
        })
    }
}
