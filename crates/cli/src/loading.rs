//! Finding the extensions of a session and loading them.
//!
//! The order is pi's. What was named on the command line has to be there and to load; what was found elsewhere and is
//! wrong is reported, and the session goes on without it, unless `--fail-on-extension-error` says otherwise.

use crate::applicant::Applicant;
use crate::args::{ExtensionFlag, RunArgs};
use crate::built::Built;
use crate::compile::Compiler;
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Result};
use crate::grant_file::Answers;
use crate::grants::Decided;
use crate::isolation;
use crate::output::{clean, indented, stderr};
use crate::supply::Supplier;
use crate::trust::Trust;
use pijs_durable::Disk;
use pijs_extc::BuildFailure;
use pijs_host::{Digests, Host, LoadError, Observer, OpenError, Report, ReportKind};
use pijs_hostcall::book::{Book, Record};
use pijs_hostcall::ledger::Redactor;
use pijs_hostcall::{Dispatcher, Profile};
use pijs_packages::{Dirs, DiscoverOptions, Discovery, Origin, PackageEntry, Scope, recover, resolve_extensions};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::{ExtensionId, guard};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
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
    if args.fail_on_extension_error && !discovery.problems.is_empty() {
        return Err(Failure::failed("not every extension can be loaded").help(FAIL_HELP));
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

/// Files and folders outside of pi's stores that extensions are loaded from: those of this run, and what other runs here load
/// that pass over less.
pub(crate) fn paths_of_code(environment: &Environment, args: &RunArgs, discovery: &Discovery) -> Vec<PathBuf> {
    let passed_over = (args.no_extensions || discovery.untrusted)
        .then(|| resolve_extensions(&DiscoverOptions { only_named: false, ..places(environment, args, true) }));
    let found = discovery.packages.iter().chain(passed_over.iter().flat_map(|found| &found.packages));
    let local = found.filter(|found| found.installed.is_none());
    local.map(|found| found.loose_file().unwrap_or(&found.root).to_owned()).collect()
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

/// How to have the session go on.
const FAIL_HELP: &str = "--fail-on-extension-error is set; without it the session goes on with the others";

/// Why a package takes no part in the session.
struct NotLoaded {
    failure: Failure,
    /// What is wrong is not the package, but the command line or the system: others would fail alike.
    ends_run: bool,
}

impl From<Failure> for NotLoaded {
    fn from(failure: Failure) -> Self {
        Self { ends_run: failure.exit == Exit::Usage, failure }
    }
}

impl From<BuildFailure> for NotLoaded {
    fn from(failure: BuildFailure) -> Self {
        Failure::from(failure).into()
    }
}

impl From<LoadError> for NotLoaded {
    fn from(error: LoadError) -> Self {
        let ends_run = matches!(error, LoadError::Realm { error: OpenError::Unsealed(_), .. });
        Self { failure: isolation::not_loaded(&error), ends_run }
    }
}

/// Reports extensions that cannot be loaded: to the front end, else on stderr.
pub(crate) struct Failures<'a> {
    pub(crate) observer: Option<&'a dyn Observer>,
    /// Knows the secrets that are not shown.
    pub(crate) redactor: &'a Redactor,
    /// `--fail-on-extension-error`
    pub(crate) are_fatal: bool,
}

impl Failures<'_> {
    /// Reports why `found` does not run. An error when the session cannot go on: the user named the extension for this
    /// run, wants no session without it, or it is not to blame.
    fn take(&self, found: &PackageEntry, NotLoaded { failure, ends_run }: NotLoaded) -> Result<()> {
        if ends_run || found.origin == Origin::Named || !guard::is_up("load.continues") {
            return Err(failure);
        }
        if self.are_fatal {
            return Err(failure.help(FAIL_HELP));
        }
        let Some(observer) = self.observer else {
            stderr(&indented(&clean(&self.redactor.text(&failure.to_string()))));
            stderr(&clean(&format!("note: the session goes on without {}", found.id)));
            return Ok(());
        };
        let (phase, message) = ("load".to_owned(), failure.to_string());
        let error = ErrorReport { entry: None, phase, name: None, message, stack: None, position: None };
        let path = found.id.as_str().to_owned();
        observer.report(&Report { extension: found.id.clone(), path, kind: ReportKind::Error(error) });
        Ok(())
    }
}

/// Loads packages in their order. One that fails is reported, and the others are loaded.
///
/// # Errors
///
/// The first failure that ends the session, see [`Failures`].
pub(crate) async fn load_all(
    host: &Host,
    dispatcher: &Dispatcher,
    compiler: &Compiler,
    supplier: &Supplier,
    desk: &Desk<'_>,
    (packages, failures): (&[PackageEntry], &Failures<'_>),
) -> Result<()> {
    host.expect(packages.len());
    for found in packages {
        match load(host, dispatcher, compiler, supplier, desk, found).await {
            Ok(entries) => entries.into_iter().try_for_each(|entry| failures.take(found, entry.into()))?,
            Err(failure) => failures.take(found, failure)?,
        }
    }
    host.expect(0);
    Ok(())
}

/// Compiles and loads one package. Answers what is wrong with entries of it; the others of the package run.
async fn load(
    host: &Host,
    dispatcher: &Dispatcher,
    compiler: &Compiler,
    supplier: &Supplier,
    desk: &Desk<'_>,
    found: &PackageEntry,
) -> Result<Vec<Failure>, NotLoaded> {
    // Of a local path, whose answers hold for other code, too.
    let record = desk.book.packages.get(found.id.as_str()).filter(|_| found.installed.is_none());
    let (grants, never) = desk.decided.before_build(record);
    let built = Built::in_session(compiler, dispatcher, found, (&grants, never))?;
    if let Some(known) = grant(dispatcher, desk, found, &built.profile, &built.metadata)? {
        host.pin_tools(&found.id, known);
    }
    let package = built.package(supplier).await?;
    // A factory may wait for a timer or a call; somebody has to bring it the answer.
    let report = host.run(host.load(package)).await?;
    let failed = |(path, error): (&str, &ErrorReport)| {
        let place = error
            .position
            .as_ref()
            .map(|at| format!("\n  at {}:{}:{}", at.file, at.line, at.column))
            .unwrap_or_default();
        Failure::failed(clean(&format!("Failed to load extension \"{path}\": {}{place}", error.message)))
    };
    Ok(report.failures().map(failed).collect())
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
