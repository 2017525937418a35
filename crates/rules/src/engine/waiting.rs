//! Judges matches in the arguments of a tool call by the paths of the call, which may arrive later than the matches.
//!
//! A path is used when its string is complete, or the call has ended: `a.ts` may still become `a.tsx`. A rule tests each path
//! once. A waiting match is visited again only when a path of an enclosing object matches. So the cost grows with the sum of
//! matches and paths, not with their product.

use super::call_matches::{CallMatch, CallPath, Owner};
use super::compiled::CompiledRules;
use super::lane::MatchKind;
use crate::rule::StreamKind;
use crate::scope::Match as ScopeMatch;
use std::collections::{BTreeMap, HashSet};

/// The scopes of the rules, for one call.
pub(crate) struct CallScope<'a> {
    pub(crate) rules: &'a CompiledRules,
    pub(crate) tool: &'a str,
    pub(crate) cwd: &'a str,
    /// Returns whether the matches of a rule have become irrelevant.
    pub(crate) is_over: &'a dyn Fn(usize) -> bool,
    /// Number of visited matches and of tested paths.
    pub(crate) judgements: u64,
}

impl CallScope<'_> {
    fn matches(&mut self, rule: usize, path: Option<&str>) -> ScopeMatch {
        self.judgements += 1;
        self.rules.rules[rule].scope.matches(StreamKind::Tool, Some(self.tool), path.as_slice(), self.cwd)
    }

    fn is_match(&mut self, rule: usize, path: &str) -> bool {
        self.matches(rule, Some(path)) == ScopeMatch::Yes
    }
}

/// The verdict of a call's paths on a match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathVerdict {
    /// The match is in scope; with the path that decided it, if there is one.
    InScope(Option<String>),
    /// The match is out of scope for any path.
    OutOfScope,
    /// The entry reports that the pattern was given up, and needs no path.
    NoMatch,
}

/// The known paths of a call.
#[derive(Clone, Copy)]
pub(crate) struct Paths<'a> {
    /// Paths among the arguments. All but the last are complete.
    pub(crate) known: &'a [CallPath],
    /// Paths that the caller knows, and the number of their changes.
    pub(crate) given: &'a [String],
    pub(crate) given_version: u64,
}

impl<'a> Paths<'a> {
    /// Returns the complete paths that belong to a text.
    pub(crate) fn of(self, owner: &'a Owner) -> impl Iterator<Item = &'a str> {
        let (file, objects) = match owner {
            Owner::File(file) => (Some(file.as_str()), None),
            Owner::Objects(objects) => (None, Some(objects)),
        };
        let of_objects = objects.into_iter().flat_map(move |objects| {
            let is_mine =
                move |path: &&CallPath| !path.path.is_empty() && path.is_complete && objects.contains(&path.object);
            let known = self.known.iter().filter(is_mine).map(|path| path.path.as_str());
            self.given.iter().map(String::as_str).chain(known)
        });
        file.into_iter().chain(of_objects)
    }
}

/// Matches of a call that wait for a path, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct PendingMatches {
    matches: Vec<Option<CallMatch>>,
    left: usize,
    rules: BTreeMap<usize, WaitingRule>,
    keys: HashSet<(usize, MatchKind, Owner)>,
}

/// The tested paths of one rule, and its waiting matches.
#[derive(Debug, Default)]
struct WaitingRule {
    /// Indexes of matches by each object that encloses them.
    by_object: BTreeMap<u32, Vec<usize>>,
    /// Number of tested paths, and the first matching path of each object.
    tested: usize,
    matching: BTreeMap<u32, usize>,
    /// Version of the given paths, and the first one that matches.
    given: (u64, Option<usize>),
}

impl PendingMatches {
    /// Discards all matches, and the tested paths of all rules.
    pub(crate) fn restart(&mut self) {
        self.matches.clear();
        self.left = 0;
        self.rules.clear();
        self.keys.clear();
    }

    /// Returns the number of waiting matches.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// Returns whether a match of the rule in a text of this owner already waits.
    pub(crate) fn has(&self, key: &(usize, MatchKind, Owner)) -> bool {
        self.keys.contains(key)
    }

    /// Judges the waiting matches by new paths.
    pub(crate) fn judge(
        &mut self,
        paths: Paths<'_>,
        scope: &mut CallScope<'_>,
        judged: &mut Vec<(CallMatch, PathVerdict)>,
    ) {
        let mut ready: Vec<usize> = Vec::new();
        let mut over: Vec<usize> = Vec::new();
        for (&rule, waiting) in self.rules.iter_mut().filter(|(_, waiting)| !waiting.by_object.is_empty()) {
            if (scope.is_over)(rule) {
                over.extend(std::mem::take(&mut waiting.by_object).into_values().flatten());
                continue;
            }
            let new = waiting.test(rule, paths, scope);
            if waiting.given.1.is_some() {
                ready.extend(std::mem::take(&mut waiting.by_object).into_values().flatten());
            } else {
                ready.extend(new.iter().filter_map(|object| waiting.by_object.remove(object)).flatten());
            }
        }
        scope.judgements += (ready.len() + over.len()) as u64;
        over.into_iter().for_each(|number| drop(self.take(number)));
        // A match is listed in each enclosing object.
        ready.sort_unstable();
        ready.dedup();
        for number in ready {
            let Some(found) = self.take(number) else { continue };
            let waiting = self.rules.entry(found.found.rule).or_default();
            match waiting.find(&found.owner, paths) {
                Some(path) => judged.push((found, PathVerdict::InScope(Some(path)))),
                None => self.wait(found),
            }
        }
    }

    /// Judges a new match, or lets it wait for a path.
    pub(crate) fn judge_new(
        &mut self,
        found: CallMatch,
        paths: Paths<'_>,
        scope: &mut CallScope<'_>,
        judged: &mut Vec<(CallMatch, PathVerdict)>,
    ) {
        let rule = found.found.rule;
        if matches!(found.found.kind, MatchKind::GaveUp(_)) {
            return judged.push((found, PathVerdict::NoMatch));
        }
        if (scope.is_over)(rule) {
            return;
        }
        let verdict = match scope.matches(rule, None) {
            ScopeMatch::No => Some(PathVerdict::OutOfScope),
            ScopeMatch::Yes => Some(PathVerdict::InScope(paths.of(&found.owner).next().map(str::to_owned))),
            ScopeMatch::NeedsPath => {
                let path = match &found.owner {
                    Owner::File(file) => scope.is_match(rule, file).then(|| file.clone()),
                    Owner::Objects(_) => {
                        let waiting = self.rules.entry(rule).or_default();
                        waiting.test(rule, paths, scope);
                        waiting.find(&found.owner, paths)
                    }
                };
                path.map(|path| PathVerdict::InScope(Some(path)))
            }
        };
        match verdict {
            Some(verdict) => judged.push((found, verdict)),
            None => self.wait(found),
        }
    }

    /// Takes all matches that still wait.
    pub(crate) fn take_all(&mut self) -> Vec<CallMatch> {
        let all = std::mem::take(&mut self.matches).into_iter().flatten().collect();
        self.restart();
        all
    }

    fn wait(&mut self, found: CallMatch) {
        let number = self.matches.len();
        if let Owner::Objects(objects) = &found.owner {
            let waiting = self.rules.entry(found.found.rule).or_default();
            for &object in objects {
                waiting.by_object.entry(object).or_default().push(number);
            }
        }
        self.keys.insert(found.key());
        self.left += 1;
        self.matches.push(Some(found));
    }

    fn take(&mut self, number: usize) -> Option<CallMatch> {
        let found = self.matches[number].take()?;
        self.keys.remove(&found.key());
        self.left -= 1;
        Some(found)
    }
}

impl WaitingRule {
    /// Tests the new paths. Returns the objects in which they match.
    fn test(&mut self, rule: usize, paths: Paths<'_>, scope: &mut CallScope<'_>) -> Vec<u32> {
        if self.given.0 != paths.given_version {
            let first = paths.given.iter().position(|path| scope.is_match(rule, path));
            self.given = (paths.given_version, first);
        }
        let mut new = Vec::new();
        while let Some(CallPath { object, path, is_complete: true }) = paths.known.get(self.tested) {
            if !path.is_empty() && scope.is_match(rule, path) {
                new.push(*object);
                self.matching.entry(*object).or_insert(self.tested);
            }
            self.tested += 1;
        }
        new
    }

    /// Returns the first matching path among those of a text.
    fn find(&self, owner: &Owner, paths: Paths<'_>) -> Option<String> {
        let Owner::Objects(objects) = owner else { return None };
        let given = self.given.1.and_then(|at| paths.given.get(at));
        let known = || {
            let first = objects.iter().filter_map(|object| self.matching.get(object)).min();
            first.map(|&at| &paths.known[at].path)
        };
        given.or_else(known).cloned()
    }
}
