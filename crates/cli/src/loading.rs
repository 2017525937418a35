//! Finding the extensions of a session and loading them.
//!
//! The order is pi's. What was named on the command line has to be there and to load; what was found elsewhere and is
//! wrong is reported.

use crate::applicant::Applicant;
use crate::args::{ExtensionFlag, RunArgs};
use crate::built::Built;
use crate::compile::Compiler;
use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::grant_file::Answers;
use crate::grants::Decided;
use crate::isolation;
use crate::output::{clean, stderr};
use crate::supply::Supplier;
use crate::trust::Trust;
use pijs_durable::Disk;
use pijs_host::{Digests, Host, Observer, Report, ReportKind};
use pijs_hostcall::book::{Book, Record};
use pijs_hostcall::{Dispatcher, Profile};
use pijs_packages::{Dirs, DiscoverOptions, Discovery, Origin, PackageEntry, Scope, recover, resolve_extensions};
use pijs_protocol::ExtensionId;
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::message::ErrorReport;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Extensions in load order. What was named on the command line has to be there; the rest is reported.
pub(crate) fn discover(environment: &Environment, args: &RunArgs) -> Result<Discovery> {
    let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    // What a process that was killed had begun to change is finished, in a project only when it is trusted.
    let scopes = if trusted { &[Scope::User, Scope::Project][..] } else { &[Scope::User] };
    for problem in recover(&Disk::system(), &environment.dirs, scopes) {
        stderr(&clean(&format!("warning: {problem}")));
    }
    let mut discovery = resolve_extensions(&places(environment, args, trusted));
    if let Some(problem) = discovery.refused.pop() {
        return Err(problem.into());
    }
    for problem in &discovery.problems {
        stderr(&clean(&format!("warning: {problem}")));
    }
    if discovery.untrusted {
        stderr("note: this folder brings extensions of its own; they are not loaded until you run: pi trust");
    }
    Ok(discovery)
}

/// Where extensions, skills, prompts and themes of a session are looked for.
pub(crate) fn places(environment: &Environment, args: &RunArgs, trusted: bool) -> DiscoverOptions {
    DiscoverOptions {
        dirs: environment.dirs.clone(),
        named: args.extensions.clone(),
        only_named: args.no_extensions,
        trusted,
    }
}

/// pi's `sourceInfo` of all extensions, by path.
pub(crate) fn provenance(discovery: &Discovery) -> BTreeMap<String, Value> {
    let mut known = BTreeMap::new();
    for found in &discovery.packages {
        known.extend(found.entries.iter().map(|entry| (entry.display().to_string(), found.from.info(entry))));
    }
    known
}

/// Whose tools are to be pinned when the session ends, and where.
pub(crate) struct ToolPins {
    pub(crate) first: RefCell<BTreeSet<ExtensionId>>,
    pub(crate) answers: Arc<Answers>,
}

/// What grants are decided with: the policy, what was answered before, and where new answers go.
pub(crate) struct Desk<'a> {
    pub(crate) dirs: &'a Dirs,
    pub(crate) decided: &'a Decided,
    pub(crate) book: Book,
    pub(crate) answers: Arc<Answers>,
    /// Installed packages whose tools nobody has seen yet.
    pub(crate) first: RefCell<BTreeSet<ExtensionId>>,
}

/// What is wrong with something that is installed: whoever watches the session is told, and it goes on. Where nobody
/// does it ends, as under pi: what failed may be a guard.
fn unless_watched(observer: Option<&dyn Observer>, id: &str, failure: Failure) -> Result<()> {
    let Some(observer) = observer else { return Err(failure) };
    let (phase, message) = ("load".to_owned(), failure.to_string());
    let error = ErrorReport { entry: None, phase, name: None, message, stack: None, position: None };
    observer.report(&Report { extension: ExtensionId::new(id), path: id.to_owned(), kind: ReportKind::Error(error) });
    Ok(())
}

/// Loads packages in their order. Those that were named on the command line have to load; the rest as in [`unless_watched`].
pub(crate) async fn load_all(
    host: &Host,
    dispatcher: &Dispatcher,
    compiler: &Compiler,
    supplier: &Supplier,
    desk: &Desk<'_>,
    (packages, observer): (&[PackageEntry], Option<&dyn Observer>),
) -> Result<()> {
    host.expect(packages.len());
    for found in packages {
        if let Err(failure) = load(host, dispatcher, compiler, supplier, desk, found).await {
            let observer = observer.filter(|_| found.origin != Origin::Named);
            unless_watched(observer, found.id.as_str(), failure)?;
        }
    }
    host.expect(0);
    Ok(())
}

/// Compiles and loads one package.
async fn load(
    host: &Host,
    dispatcher: &Dispatcher,
    compiler: &Compiler,
    supplier: &Supplier,
    desk: &Desk<'_>,
    found: &PackageEntry,
) -> Result<()> {
    // Of a local path, whose answers hold for other code, too.
    let record = desk.book.packages.get(found.id.as_str()).filter(|_| found.installed.is_none());
    let (grants, never) = desk.decided.before_build(record);
    let built = Built::in_session(compiler, dispatcher, found, (&grants, never))?;
    if let Some(known) = grant(dispatcher, desk, found, &built.profile, &built.metadata)? {
        host.pin_tools(&found.id, known);
    }
    let package = built.package(supplier).await?;
    // A factory may wait for a timer or a call; somebody has to bring it the answer.
    let report = host.run(host.load(package)).await.map_err(|error| isolation::not_loaded(&error))?;
    if let Some((path, error)) = report.failures().next() {
        let place = error
            .position
            .as_ref()
            .map(|at| format!("\n  at {}:{}:{}", at.file, at.line, at.column))
            .unwrap_or_default();
        return Err(Failure::failed(clean(&format!("Failed to load extension \"{path}\": {}{place}", error.message))));
    }
    Ok(())
}

/// Tells the gate what an extension holds, and its user when that is less than it was. Answers what its tools said
/// before.
fn grant(
    dispatcher: &Dispatcher,
    desk: &Desk<'_>,
    found: &PackageEntry,
    profile: &Profile,
    metadata: &ArtifactMetadata,
) -> Result<Option<Digests>> {
    let who = (found.id.as_str(), found.installed);
    let applicant = Applicant::new(desk.dirs, who, &found.root, metadata, desk.decided.policy.mode)?;
    let record = desk.book.packages.get(&applicant.key);
    let held = desk.decided.held(&applicant, found.origin, record);
    if let Some(note) = &held.note {
        stderr(&clean(&format!("warning: {}: {note}", applicant.id)));
    }
    let empty = Record::new(applicant.present());
    let code = empty.code.clone();
    desk.answers.expect(found.id.clone(), applicant.key.clone(), empty);
    let gate = dispatcher.gate();
    let grants = desk.decided.readable(gate, profile, held.grants);
    gate.set_grants(profile, &grants, applicant.evidence)
        .map_err(|error| Failure::usage(format!("{}: {error}", found.id)))?;
    gate.set_never(profile, held.never);
    // Of code that nobody agreed to, nothing is known.
    let Some(record) = record.filter(|record| record.code == code) else { return Ok(None) };
    if record.tools.is_empty() {
        desk.first.borrow_mut().insert(found.id.clone());
        return Ok(None);
    }
    Ok(Some(record.tools.clone()))
}

/// Gives extensions the flags of the command line.
pub(crate) fn set_flags(host: &Host, flags: Vec<ExtensionFlag>) -> Result<()> {
    let problems = give_flags(host, flags.into_iter().map(|flag| (flag.name, flag.value)));
    match problems.last() {
        None => Ok(()),
        Some(last) => {
            let failure = Failure::failed(clean(&problems.join("\n")));
            let is_unknown = last.starts_with(UNKNOWN_OPTION);
            let help = "pi --help lists the options; extensions may register more";
            Err(if is_unknown { failure.help(help) } else { failure })
        }
    }
}

/// How pi begins to say that nobody registered a flag.
const UNKNOWN_OPTION: &str = "Unknown option";

/// The same for flags from anywhere: those that fit count, and what is wrong with others is said in pi's words.
pub(crate) fn give_flags(host: &Host, given: impl IntoIterator<Item = (String, Option<String>)>) -> Vec<String> {
    let (mut problems, mut unknown) = (Vec::new(), Vec::new());
    for (name, value) in given {
        match (host.flag_type(&name).as_deref(), value) {
            (None, _) => unknown.push(format!("--{name}")),
            (Some("boolean"), _) => host.set_flag(&name, true),
            (Some(_), Some(value)) => host.set_flag(&name, value),
            (Some(_), None) => problems.push(format!("Extension flag \"--{name}\" requires a value")),
        }
    }
    if !unknown.is_empty() {
        let many = if unknown.len() == 1 { "" } else { "s" };
        problems.push(format!("{UNKNOWN_OPTION}{many}: {}", unknown.join(", ")));
    }
    problems
}
