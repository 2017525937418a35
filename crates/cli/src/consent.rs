//! Asking at install: once, in words, and again when a package wants more than it was granted.
//!
//! With a terminal a person answers. `--yes` takes what was asked for. With neither, a package gets what naming a file
//! with `-e` would give it (what steers the model, never files outside, programs, servers or variables), under the
//! strict policy nothing, and its user is told how to grant the rest. An update that asks for more and cannot be asked
//! about leaves the old answers bound to the old code: the new code starts without them.

use crate::applicant::Applicant;
use crate::failure::Result;
use crate::grant_file::GrantFile;
use crate::output::{clean, stderr};
use crate::terminal::Terminal;
use pijs_hostcall::asked::{combinations, widening, words};
use pijs_hostcall::book::{Answered, By, Record};
use pijs_hostcall::prompt::shown;
use pijs_hostcall::vocabulary::MODEL_FACING;
use pijs_hostcall::{Grant, Mode};
use pijs_protocol::artifact::Offers;
use pijs_protocol::manifest::CapabilityRequest;

/// Who answers.
pub(crate) enum Who<'a> {
    /// `--yes`.
    Yes,
    /// A person.
    Person(&'a Terminal),
    /// Nobody.
    Nobody,
}

/// What an install led to.
#[derive(Debug, Default)]
pub(crate) struct Consent {
    /// Capabilities that are granted now.
    pub(crate) granted: Vec<String>,
    /// What was asked for and is not.
    pub(crate) missing: Vec<CapabilityRequest>,
    /// Whether a person has been shown what the package brings.
    pub(crate) has_seen: bool,
}

/// Asks about a package that was installed or updated, and writes the answers down.
pub(crate) fn ask(file: &GrantFile, applicant: &Applicant, who: &Who<'_>, mode: Mode) -> Result<Consent> {
    let requests = &applicant.asked.capabilities;
    let before = file.read()?.packages.remove(&applicant.id);
    let more = match &before {
        Some(record) => widening(&record.manifest(), &applicant.asked),
        None => requests.clone(),
    };
    let has_seen = !more.is_empty() && matches!(who, Who::Person(_));
    let chosen = if more.is_empty() {
        Some((Vec::new(), By::Install))
    } else {
        match who {
            Who::Yes => Some((more.clone(), By::Yes)),
            Who::Person(terminal) => Some((by_person(terminal, applicant, before.is_some(), &more), By::Install)),
            Who::Nobody if before.is_some() => None,
            Who::Nobody if mode == Mode::Strict => Some((Vec::new(), By::Unattended)),
            Who::Nobody => {
                let steering = |request: &&CapabilityRequest| MODEL_FACING.contains(&request.capability.as_str());
                Some((more.iter().filter(steering).cloned().collect(), By::Unattended))
            }
        }
    };
    let at = file.now();
    let present = applicant.present();
    let record = file.change(|book| {
        let Some((chosen, by)) = &chosen else { return None };
        let record = book.packages.entry(applicant.id.clone()).or_insert_with(|| Record::new(present));
        record.bind(present);
        for request in chosen {
            let Grant { capability, methods, scope, .. } = Grant::accepting("", request);
            record.answer(Answered { capability, methods, scope, allowed: true, by: *by, at: at.clone() });
        }
        Some(record.clone())
    })?;
    let granted: Vec<String> = record
        .iter()
        .flat_map(|record| &record.answers)
        .filter(|answer| answer.allowed)
        .map(|answer| answer.capability.to_string())
        .collect();
    let missing = requests.iter().filter(|request| !granted.iter().any(|name| *name == request.capability.as_str()));
    let missing = missing.cloned().collect();
    if record.is_none() {
        stderr(&format!("{} asks for more than it was granted:", clean(&applicant.id)));
        more.iter().for_each(|request| stderr(&format!("  + {}", words(request))));
        stderr("  until somebody answers, it has nothing that needs asking");
    }
    Ok(Consent { granted, missing, has_seen })
}

/// Tools and commands that are shown of a package, each on a line.
const MOST_OFFERED: usize = 20;
/// Characters of a name and of its description.
const OFFERED_NAME: usize = 64;
const OFFERED_WORDS: usize = 160;

/// What a package brings the model and the person, in the words of its code: a line each, without a sign that could be
/// taken for anything else.
pub(crate) fn offered(offers: &Offers) -> Vec<String> {
    let line = |kind: &str, (name, about): (&String, &String)| format!("{kind} {}", one_line(name, about));
    let tools = offers.tools.iter().map(|tool| line("brings the tool", tool));
    let commands = offers.commands.iter().map(|command| line("brings the command", command));
    let mut lines: Vec<String> = tools.chain(commands).collect();
    let more = lines.len().saturating_sub(MOST_OFFERED);
    lines.truncate(MOST_OFFERED);
    if more > 0 {
        lines.push(format!("brings {more} more tools and commands; all of them: pi ext show"));
    }
    if offers.more {
        lines.push("brings tools or commands that get their names only as it runs".to_owned());
    }
    lines
}

/// A name and what it is said to do.
pub(crate) fn one_line(name: &str, about: &str) -> String {
    let (name, about) = (shown(name, OFFERED_NAME), shown(about.trim(), OFFERED_WORDS));
    if about.is_empty() { name } else { format!("{name}: {about}") }
}

/// Says what is not granted, and how to grant it.
pub(crate) fn explain_missing(applicant: &Applicant, consent: &Consent) {
    if consent.missing.is_empty() {
        return;
    }
    stderr("not granted:");
    consent.missing.iter().for_each(|request| stderr(&format!("  - {}", words(request))));
    let first = consent.missing[0].capability.as_str();
    stderr(&format!(
        "  grant with: pi ext grants allow {} {}   or all of it with: pi install --yes SOURCE",
        clean(&applicant.id),
        clean(first)
    ));
}

fn by_person(
    terminal: &Terminal,
    applicant: &Applicant,
    is_update: bool,
    more: &[CapabilityRequest],
) -> Vec<CapabilityRequest> {
    let loss = applicant.evidence.expected_loss();
    let mut text = if is_update {
        format!("\n{} asks for more than it was granted:\n", applicant.id)
    } else {
        format!("\n{} asks to\n", applicant.id)
    };
    for request in more {
        text.push_str(&format!("  {} {}\n", if is_update { "+" } else { "-" }, words(request)));
    }
    offered(&applicant.offers).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    for note in combinations(&applicant.asked.capabilities) {
        text.push_str(&format!("  note: {note}\n"));
    }
    for signal in applicant.evidence.signals() {
        text.push_str(&format!("  seen: {}\n", signal.words()));
    }
    text.push_str(&format!("  expected loss: {:.2} if granted, {:.2} if not\n", loss.grant, loss.deny));
    text.push_str("grant this? [y]es, [c]hoose one by one, [N]o: ");
    match terminal.answer(&text).as_deref() {
        Some("y" | "yes") => more.to_vec(),
        Some("c" | "choose") => {
            let is_yes = |request: &&CapabilityRequest| {
                let answer = terminal.answer(&format!("  {}? [y/N]: ", words(request)));
                matches!(answer.as_deref(), Some("y" | "yes"))
            };
            more.iter().filter(is_yes).cloned().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_one_clean_line_each() {
        let mut offers = Offers::default();
        offers.tools.insert("add".to_owned(), "adds\n  - may do nothing\u{1b}[2K\u{202e}".to_owned());
        offers.tools.insert("long".repeat(100), "x".repeat(10_000));
        for n in 0..30 {
            offers.commands.insert(format!("c{n:02}"), String::new());
        }
        let lines = offered(&offers);
        assert_eq!(lines[0], "brings the tool add: adds\\u{a}  - may do nothing\\u{1b}[2K\\u{202e}");
        assert!(lines.iter().all(|line| line.chars().count() < 400 && !line.contains(['\n', '\u{1b}', '\u{202e}'])));
        assert_eq!(lines.len(), MOST_OFFERED + 1);
        assert_eq!(lines[MOST_OFFERED], "brings 12 more tools and commands; all of them: pi ext show");
    }
}
