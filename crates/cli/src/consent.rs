//! Consent at install: one prompt, and another when a package requests more than it was granted.
//!
//! At a terminal, the user answers. `--yes` grants the requested capabilities. Otherwise a package gets the grants of a file
//! named with `-e` (those that steer the model, but never files outside of the project, programs, servers or variables), or no
//! grants under the strict policy, and a message says how to grant the rest. An update that requests more and cannot prompt is
//! refused before anything changes, and the installed version keeps its grants. Changes of the tools and commands that an update
//! provides are always printed.
//!
//! An [`InstallDecision`] is made before a package is put in place and kept afterwards.

use crate::output::{clean, stderr};
use crate::packages::Outlook;
use crate::terminal::Terminal;
use pijs_hostcall::grant_store::{AnswerValidity, By, GrantStore, PackageRecord, StoredAnswer};
use pijs_hostcall::prompt::shown;
use pijs_hostcall::requests::{allow_command, as_grants, combinations, describe, widening};
use pijs_hostcall::vocabulary::MODEL_FACING;
use pijs_hostcall::{Grant, Mode, Signal};
use pijs_protocol::artifact::Offers;
use pijs_protocol::guard;
use pijs_protocol::manifest::{CapabilityManifest, CapabilityRequest, Scope};
use pijs_runtime::Result;
use pijs_runtime::grant_file::GrantFile;
use pijs_runtime::package_request::PackageRequest;

/// The source of the answers to the prompt.
pub(crate) enum Answerer<'a> {
    /// The option `--yes`.
    Yes {
        /// Whether requests that were not granted before are granted now.
        anew: bool,
    },
    /// A user at a terminal.
    User {
        /// The terminal that shows the prompt.
        terminal: &'a Terminal,
        /// Whether the prompt includes requests that were declined or revoked before.
        anew: bool,
    },
    /// No user.
    None,
}

/// The grants of an install.
#[derive(Debug, Default)]
pub(crate) struct InstallConsent {
    /// Capabilities that are granted, by this install or before.
    pub(crate) granted: Vec<String>,
    /// Requests that this install has granted.
    added: Vec<CapabilityRequest>,
    /// Requests that are not granted after this install.
    pub(crate) missing: Vec<CapabilityRequest>,
    /// The tools and commands that the package adds or changes, as lines to print.
    brought: Vec<String>,
    /// Whether the user has answered a prompt that contained these lines and the requests.
    has_seen: bool,
}

/// The decision on a package, before it is stored.
pub(crate) struct InstallDecision {
    /// The grants and the kind of answer; `None` leaves earlier answers bound to the earlier code.
    chosen: Option<(Vec<CapabilityRequest>, By)>,
    /// The requests of the prompt.
    more: Vec<CapabilityRequest>,
    brought: Vec<String>,
    has_seen: bool,
}

/// The reason why a package is not installed.
#[derive(Debug)]
pub(crate) enum NotInstalled {
    /// An update requests these capabilities in addition to its grants.
    Widened(Vec<String>),
    /// The user declined.
    ByUser,
}

/// The open request of one realm of a package.
struct OpenRequest {
    more: Vec<CapabilityRequest>,
    brought: Vec<String>,
    /// Whether earlier answers about this realm exist.
    is_update: bool,
}

/// Decides about a package that is about to be installed, and prompts if there is a user: once, for all of its realms together.
/// `replaces` means that another version is installed. Without a user, an update that would lose grants is then refused, because
/// the old version with its grants is more useful than the new one without them. `outlook` is the expected behaviour of the
/// package if all requests are granted. Returns a decision for each realm.
pub(crate) fn decide(
    book: &GrantStore,
    applicants: &[&PackageRequest],
    answerer: &Answerer<'_>,
    mode: Mode,
    (replaces, outlook): (bool, &Outlook),
) -> Result<Vec<InstallDecision>, NotInstalled> {
    let mut lost_ones = Vec::new();
    let open: Vec<OpenRequest> =
        applicants.iter().map(|applicant| open_request(book, applicant, answerer, replaces, &mut lost_ones)).collect();
    if !lost_ones.is_empty() {
        return Err(NotInstalled::Widened(lost_ones.iter().map(describe).collect()));
    }
    let answer = match answerer {
        Answerer::User { terminal, .. } if open.iter().any(|open| !open.more.is_empty()) => {
            Some(by_user(terminal, applicants, &open, outlook).ok_or(NotInstalled::ByUser)?)
        }
        _ => None,
    };
    Ok(open.into_iter().map(|open| decided(open, answerer, mode, answer.as_deref())).collect())
}

/// Returns the unanswered requests of one realm. Adds to `lost_ones` the requests that are granted now and that an update would
/// drop.
fn open_request(
    book: &GrantStore,
    applicant: &PackageRequest,
    answerer: &Answerer<'_>,
    replaces: bool,
    lost_ones: &mut Vec<CapabilityRequest>,
) -> OpenRequest {
    let mut book = book.clone();
    let before = book.packages.remove(&applicant.key);
    let mut brought = match before.as_ref().and_then(|record| record.brings.as_ref()) {
        Some(known) => changes(known, &applicant.offers),
        None => offered(&applicant.offers),
    };
    brought.extend(also_brought(&book, &applicant.offers));
    if let (Answerer::None, true, Some(record)) = (answerer, replaces && guard!(InstallKeepWorking), &before) {
        lost_ones.extend(lost_requests(record, applicant));
    }
    let before = before.filter(|record| !is_other(record, applicant));
    let more = match &before {
        Some(record) if matches!(answerer, Answerer::Yes { anew: true } | Answerer::User { anew: true, .. }) => {
            not_granted(record, &applicant.asked)
        }
        Some(record) => widening(&record.manifest(), &applicant.asked),
        None => applicant.asked.capabilities.clone(),
    };
    OpenRequest { more, brought, is_update: before.is_some() }
}

/// Returns the decision about one realm; `answer` is the part of the package's requests that the user granted.
fn decided(
    open: OpenRequest,
    answerer: &Answerer<'_>,
    mode: Mode,
    answer: Option<&[CapabilityRequest]>,
) -> InstallDecision {
    let OpenRequest { more, brought, is_update } = open;
    let has_seen = answer.is_some();
    let chosen = if more.is_empty() {
        Some((Vec::new(), By::Install))
    } else {
        match answerer {
            Answerer::Yes { .. } => Some((more.clone(), By::Yes)),
            Answerer::User { .. } => {
                let granted = answer.unwrap_or_default();
                Some((more.iter().filter(|request| granted.contains(request)).cloned().collect(), By::Install))
            }
            Answerer::None if is_update => None,
            Answerer::None if mode == Mode::Strict => Some((Vec::new(), By::Unattended)),
            Answerer::None => {
                let steering = |request: &&CapabilityRequest| MODEL_FACING.contains(&request.capability.as_str());
                Some((more.iter().filter(steering).cloned().collect(), By::Unattended))
            }
        }
    };
    InstallDecision { chosen, more, brought, has_seen }
}

/// Returns the requests of a package that are not granted, except those that were answered *never*.
fn not_granted(record: &PackageRecord, asked: &CapabilityManifest) -> Vec<CapabilityRequest> {
    let held = CapabilityManifest { capabilities: held_requests(record), ..record.manifest() };
    widening(&held, asked).into_iter().filter(|request| !record.refuses(request)).collect()
}

/// Returns the grants of a record, one request for each capability.
fn held_requests(record: &PackageRecord) -> Vec<CapabilityRequest> {
    let mut held: Vec<CapabilityRequest> = Vec::new();
    for Grant { capability, methods, scope, .. } in record.grants() {
        match held.iter_mut().find(|known| known.capability == capability && known.methods == methods) {
            Some(known) => known.scope = both(known.scope.take(), scope),
            None => held.push(CapabilityRequest { capability, methods, scope }),
        }
    }
    held
}

/// Merges two scopes of one capability. An absent list or scope covers everything.
fn both(one: Option<Scope>, other: Option<Scope>) -> Option<Scope> {
    let lists = |one: Option<Vec<String>>, other: Option<Vec<String>>| Some([one?, other?].concat());
    let (one, other) = (one?, other?);
    Some(Scope {
        paths: lists(one.paths, other.paths),
        hosts: lists(one.hosts, other.hosts),
        env: lists(one.env, other.env),
        commands: lists(one.commands, other.commands),
        tools: lists(one.tools, other.tools),
    })
}

/// Returns whether a record of a project's package is about other code: a project's lock file may name any code. If the
/// registry's integrity matches, an update requests only the difference.
fn is_other(record: &PackageRecord, applicant: &PackageRequest) -> bool {
    let is_projects = applicant.key != applicant.id;
    is_projects && record.standing(applicant.present()) != AnswerValidity::Holds
}

/// Returns the requests that an update would lose if it cannot prompt.
fn lost_requests(record: &PackageRecord, applicant: &PackageRequest) -> Vec<CapabilityRequest> {
    let more = widening(&record.manifest(), &applicant.asked);
    let by_user = |answer: &StoredAnswer| answer.allowed && answer.by != By::Unattended;
    if more.is_empty() && is_other(record, applicant) && record.answers.iter().any(by_user) {
        // The code of a project's package changed, so all answers about the package are lost.
        return applicant.asked.capabilities.clone();
    }
    more
}

impl InstallDecision {
    /// Stores the answers, bound to the installed code.
    pub(crate) fn keep(self, file: &GrantFile, applicant: &PackageRequest) -> Result<InstallConsent> {
        let Self { chosen, more, brought, has_seen } = self;
        let requests = &applicant.asked.capabilities;
        let at = file.now();
        let present = applicant.present();
        let record = file.change(|book| {
            let Some((chosen, by)) = &chosen else { return None };
            let record = book.packages.entry(applicant.key.clone()).or_insert_with(|| PackageRecord::new(present));
            if is_other(record, applicant) {
                *record = PackageRecord::new(present);
            }
            record.bind(present);
            record.brings = Some(applicant.offers.clone());
            for request in chosen {
                let Grant { capability, methods, scope, .. } = Grant::accepting("", request);
                record.answer(StoredAnswer { capability, methods, scope, allowed: true, by: *by, at: at.clone() });
            }
            Some(record.clone())
        })?;
        let granted: Vec<String> = record
            .iter()
            .flat_map(|record| &record.answers)
            .filter(|answer| answer.allowed)
            .map(|answer| answer.capability.to_string())
            .collect();
        let missing =
            requests.iter().filter(|request| !granted.iter().any(|name| *name == request.capability.as_str()));
        let missing = missing.cloned().collect();
        let added = chosen.map(|(chosen, _)| chosen).unwrap_or_default();
        if record.is_none() {
            stderr(&format!("{} requests more than it was granted:", clean(&applicant.id)));
            more.iter().for_each(|request| stderr(&format!("  + {}", describe(request))));
            stderr("  without an answer it has only permissions that need no prompt");
        }
        Ok(InstallConsent { granted, added, missing, brought, has_seen })
    }
}

impl InstallConsent {
    /// Returns the changes that no prompt has shown, one line each: new grants, and tools and commands.
    pub(crate) fn unseen(&self) -> Vec<String> {
        if self.has_seen {
            return Vec::new();
        }
        let added = self.added.iter().map(|request| format!("may now {}", describe(request)));
        added.chain(self.brought.iter().cloned()).collect()
    }
}

/// Maximum number of tools and commands of a package that are listed.
const MAX_OFFERED: usize = 20;
/// Maximum number of commands that are listed on separate lines; more commands are listed by name on a single line. Each tool has
/// a separate line, because the model sees the tools.
const MAX_COMMANDS: usize = 5;
/// Maximum length of such a list in characters.
const LONGEST_LIST: usize = 300;
/// Maximum length of a displayed name in characters.
const OFFERED_NAME: usize = 64;
const OFFERED_WORDS: usize = 160;

/// Returns the tools and commands of a package, one line each, with the names and descriptions in its code. Characters that could
/// imitate another line are removed.
fn offered(offers: &Offers) -> Vec<String> {
    changes(&Offers::default(), offers)
}

/// Returns the added, changed and removed tools and commands.
fn changes(before: &Offers, offers: &Offers) -> Vec<String> {
    let kinds = [("tool", &before.tools, &offers.tools), ("command", &before.commands, &offers.commands)];
    let mut lines = Vec::new();
    for (kind, before, now) in kinds {
        let new: Vec<&str> = now.keys().filter(|name| !before.contains_key(*name)).map(String::as_str).collect();
        let is_folded = kind == "command" && new.len() > MAX_COMMANDS;
        if is_folded {
            lines.push(format!("adds {} commands: {}; details: pi ext show", new.len(), listed(&new)));
        }
        for (name, about) in now {
            match before.get(name) {
                None if is_folded => {}
                None => lines.push(format!("adds the {kind} {}", one_line(name, about))),
                Some(known) if known != about => {
                    lines.push(format!("changes the description of the {kind} {}", one_line(name, about)));
                }
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|name| !now.contains_key(*name));
        lines.extend(gone.map(|name| format!("removes the {kind} {}", one_line(name, ""))));
    }
    let more = lines.len().saturating_sub(MAX_OFFERED);
    lines.truncate(MAX_OFFERED);
    if more > 0 {
        let parts = if more == 1 { "tool or command" } else { "tools and commands" };
        lines.push(format!("adds {more} more {parts}; list them: pi ext show"));
    }
    if offers.more && !before.more {
        lines.push("adds tools or commands whose names are computed at run time".to_owned());
    }
    lines
}

/// Joins names in one line, up to its length.
fn listed(names: &[&str]) -> String {
    let mut line = String::new();
    for (at, name) in names.iter().enumerate() {
        let name = one_line(name, "");
        if at > 0 && line.chars().count() + name.chars().count() > LONGEST_LIST {
            return format!("{line} and {} more", names.len() - at);
        }
        let comma = if at > 0 { ", " } else { "" };
        line = format!("{line}{comma}{name}");
    }
    line
}

/// Returns the tools that another package registers as well. Only one of the two is called, and the model cannot know which.
fn also_brought(book: &GrantStore, offers: &Offers) -> Vec<String> {
    let others = book.packages.iter().filter_map(|(id, record)| Some((id, record.brings.as_ref()?)));
    let shared = others.flat_map(|(id, known)| {
        let names = offers.tools.keys().filter(|name| known.tools.contains_key(*name));
        names.map(|name| {
            format!("note: {} also adds the tool {}; the one that loads first is used", clean(id), one_line(name, ""))
        })
    });
    shared.take(MAX_OFFERED).collect()
}

/// Returns a name and its description.
pub(crate) fn one_line(name: &str, about: &str) -> String {
    let (name, about) = (shown(name, OFFERED_NAME), shown(about.trim(), OFFERED_WORDS));
    if about.is_empty() { name } else { format!("{name}: {about}") }
}

/// Prints the missing grants, and how to grant them; `install` is the command that installs the package.
pub(crate) fn explain_missing(applicant: &PackageRequest, consent: &InstallConsent, install: &str) {
    if consent.missing.is_empty() {
        return;
    }
    stderr("not granted:");
    consent.missing.iter().for_each(|request| stderr(&format!("  - {}", describe(request))));
    let grants: Vec<String> = consent.missing.iter().flat_map(as_grants).collect();
    if grants.is_empty() {
        return;
    }
    let command = allow_command(&applicant.id, &grants);
    stderr(&format!("  grant with: {}   or with: {} --yes", clean(&command), clean(install)));
}

/// Returns whether the prompt already covers a signal, by a request or by the outlook.
fn is_said(signal: &Signal) -> bool {
    signal.repeats_request() || *signal == Signal::Blocked
}

/// Prompts the user for grants. Returns `None` if the package is not to be installed.
fn by_user(
    terminal: &Terminal,
    applicants: &[&PackageRequest],
    open: &[OpenRequest],
    outlook: &Outlook,
) -> Option<Vec<CapabilityRequest>> {
    // A folder may have any name, including one that imitates a line of this prompt.
    let who = shown(applicants.first().map(|applicant| applicant.id.as_str()).unwrap_or_default(), OFFERED_WORDS);
    let is_update = open.iter().any(|open| open.is_update);
    let mut more: Vec<CapabilityRequest> = Vec::new();
    for request in open.iter().flat_map(|open| &open.more) {
        if !more.contains(request) {
            more.push(request.clone());
        }
    }
    let mut text =
        if is_update { format!("\n{who} requests more than it was granted:\n") } else { format!("\n{who} asks to\n") };
    for request in &more {
        text.push_str(&format!("  {} {}\n", if is_update { "+" } else { "-" }, describe(request)));
    }
    open.iter().flat_map(|open| &open.brought).for_each(|line| text.push_str(&format!("  {line}\n")));
    let all: Vec<CapabilityRequest> =
        applicants.iter().flat_map(|applicant| applicant.asked.capabilities.clone()).collect();
    for note in combinations(&all) {
        text.push_str(&format!("  note: {note}\n"));
    }
    for applicant in applicants {
        notes(applicant).for_each(|note| text.push_str(&note));
    }
    if *outlook != Outlook::Works {
        // The outlook contains names from the code.
        let outlook = shown(&outlook.to_string(), LONGEST_LIST);
        text.push_str(&format!("  note: granted all of this, it {outlook}\n"));
    }
    text.push_str("grant this? [y]es, [c]hoose one by one, [N]o (installs without), [d]o not install: ");
    for _ in 0..MAX_ANSWERS {
        match terminal.answer(&text).as_deref() {
            // A closed terminal is not consent.
            None | Some("d" | "do not install" | "q") => return None,
            Some("y" | "yes") => return Some(more.to_vec()),
            Some("" | "n" | "no") => return Some(Vec::new()),
            Some("c" | "choose") => {
                let is_yes = |request: &&CapabilityRequest| {
                    let answer = terminal.answer(&format!("  {}? [y/N]: ", describe(request)));
                    matches!(answer.as_deref(), Some("y" | "yes"))
                };
                return Some(more.iter().filter(is_yes).cloned().collect());
            }
            Some(_) => text = "answer y, c, n or d: ".to_owned(),
        }
    }
    None
}

/// Returns the signals that the scan found in one realm, one line each.
fn notes(applicant: &PackageRequest) -> impl Iterator<Item = String> + '_ {
    let signals = applicant.evidence.signals().iter().filter(|signal| !is_said(signal));
    signals.map(|signal| {
        let places = match (signal, applicant.hidden_text.as_slice()) {
            (Signal::HiddenText, [place]) => format!(": {}", shown(place, OFFERED_WORDS)),
            (Signal::HiddenText, [first, more @ ..]) => {
                let plural = if more.len() == 1 { "" } else { "s" };
                format!(": {} and {} more place{plural}", shown(first, OFFERED_WORDS), more.len())
            }
            _ => String::new(),
        };
        format!("  note: {}{places}\n", signal.words())
    })
}

/// Maximum number of invalid answers before the package is not installed.
const MAX_ANSWERS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_commands_are_listed_on_one_clean_line_each() {
        let mut offers = Offers::default();
        offers.tools.insert("add".to_owned(), "adds\n  - may do nothing\u{1b}[2K\u{202e}".to_owned());
        offers.tools.insert("long".repeat(100), "x".repeat(10_000));
        for n in 0..30 {
            offers.tools.insert(format!("t{n:02}"), String::new());
            offers.commands.insert(format!("c{n:02}"), "does".to_owned());
        }
        let lines = offered(&offers);
        assert_eq!(lines[0], "adds the tool add: adds\\u{a}  - may do nothing\\u{1b}[2K\\u{202e}");
        assert!(lines.iter().all(|line| line.chars().count() < 400 && !line.contains(['\n', '\u{1b}', '\u{202e}'])));
        assert_eq!(lines.len(), MAX_OFFERED + 1);
        assert_eq!(lines[MAX_OFFERED], "adds 13 more tools and commands; list them: pi ext show");
        offers.tools.clear();
        let lines = offered(&offers);
        assert!(lines[0].starts_with("adds 30 commands: c00, c01, c02"), "{lines:?}");
        assert!(lines[0].ends_with(", c29; details: pi ext show") && lines.len() == 1, "{lines:?}");
        offers.commands.extend((0..30).map(|n| (format!("{n:02}{}", "x".repeat(62)), String::new())));
        let line = &offered(&offers)[0];
        assert!(line.contains(" more; details") && line.chars().count() < 400, "{line}");
        offers.commands = [("one".to_owned(), "does".to_owned())].into();
        assert_eq!(offered(&offers), ["adds the command one: does"]);
    }
}
