//! Finds the extensions of a session and loads them.
//!
//! The order is pi's. An extension on the command line has to exist and to load; other errors are reported, and the session
//! continues without the extension, unless `--fail-on-extension-error` is set.

use crate::compile::Compiler;
use crate::compiled_package::CompiledPackage;
use crate::config::SessionConfig;
use crate::environment::Environment;
use crate::grant_file::AnswerRecorder;
use crate::grants::UserDecisions;
use crate::isolation;
use crate::notices::Notices;
use crate::package_request::{PackageRequest, grant_key};
use crate::slow_task::SlowTask;
use crate::supply::Supplier;
use crate::text::{clean, indented};
use crate::trust::Trust;
use crate::user_error::{Exit, Result, UserError};
use pijs_agent::host::{EARLIER_STAYS, Reloaded};
use pijs_durable::Disk;
use pijs_extc::BuildFailure;
use pijs_host::{Digests, ExtensionReport, Host, LoadError, LoadReport, Observer, OpenError, Package, ReportKind};
use pijs_hostcall::grant_store::{GrantStore, PackageRecord};
use pijs_hostcall::prompt::shown;
use pijs_hostcall::{Dispatcher, Grant};
use pijs_packages::{
    DiscoverOptions, Discovery, DiscoveryOrigin, InstallScope, PackageEntry, recover, resolve_extensions,
};
use pijs_protocol::artifact::Finding;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::{ExtensionId, guard};
use pijs_redact::Redactor;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a displayed name of a package, in characters.
const MAX_SHOWN_NAME: usize = 64;

/// Finds extensions in load order. Those of the command line have to exist; other errors are reported.
pub(crate) fn discover(environment: &Environment, config: &SessionConfig) -> Result<Discovery> {
    let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    // Completes or reverts a change that a killed process left unfinished; in a project only if it is trusted.
    let scopes = if trusted { &[InstallScope::User, InstallScope::Project][..] } else { &[InstallScope::User] };
    for problem in recover(&Disk::system(), &environment.dirs, scopes) {
        environment.notices.warn(problem);
    }
    let mut discovery = resolve_extensions(&places(environment, config, trusted));
    if let Some(problem) = discovery.refused.pop() {
        return Err(problem.into());
    }
    for problem in &discovery.problems {
        environment.notices.warn(problem);
    }
    if config.extensions.fail_on_error && !discovery.problems.is_empty() {
        return Err(UserError::failed("not every extension can be loaded").help(FAIL_HELP));
    }
    if discovery.untrusted {
        environment
            .notices
            .show("note: this folder has its own extensions; they are not loaded until you run: pi trust");
    }
    Ok(discovery)
}

/// Returns the options of the search for extensions, skills, prompts and themes.
pub(crate) fn places(environment: &Environment, config: &SessionConfig, trusted: bool) -> DiscoverOptions {
    DiscoverOptions {
        dirs: environment.dirs.clone(),
        named: config.extensions.named.clone(),
        only_named: config.extensions.only_named,
        trusted,
    }
}

/// Lists files and folders outside of pi's stores that extensions are loaded from, including those that only other runs in this
/// folder load because they skip fewer.
pub(crate) fn paths_of_code(environment: &Environment, config: &SessionConfig, discovery: &Discovery) -> Vec<PathBuf> {
    let passed_over = (config.extensions.only_named || discovery.untrusted)
        .then(|| resolve_extensions(&DiscoverOptions { only_named: false, ..places(environment, config, true) }));
    let found = discovery.packages.iter().chain(passed_over.iter().flat_map(|found| &found.packages));
    let local = found.filter(|found| found.installed.is_none());
    local.map(|found| found.loose_file().unwrap_or(&found.root).to_owned()).collect()
}

/// Lists local files and folders with stored grants. A later run loads them with these grants, whatever code they contain then.
pub(crate) fn paths_with_grants(stored: &GrantStore) -> impl Iterator<Item = PathBuf> {
    let is_granted = |record: &PackageRecord| record.answers.iter().any(|answer| answer.allowed);
    let granted = stored.packages.iter().filter(move |(_, record)| is_granted(record));
    granted.filter_map(|(source, _)| source.strip_prefix("path:").map(PathBuf::from))
}

/// Returns pi's `sourceInfo` of all extensions, by path.
pub(crate) fn provenance(discovery: &Discovery) -> BTreeMap<String, Value> {
    let mut known = BTreeMap::new();
    for found in &discovery.packages {
        known.extend(found.entries.iter().map(|entry| (entry.display().to_string(), found.from.info(entry))));
    }
    known
}

/// Compiles the extensions of a session, computes their grants and loads them: at start, and on `/reload`.
pub(crate) struct Loader {
    pub(crate) environment: Environment,
    pub(crate) config: SessionConfig,
    pub(crate) compiler: Compiler,
    pub(crate) supplier: Supplier,
    pub(crate) host: Host,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) decided: UserDecisions,
    /// Store of the user's answers; new ones are added.
    pub(crate) answers: Arc<AnswerRecorder>,
    /// Answers as of the last load.
    pub(crate) book: RefCell<GrantStore>,
    /// Installed packages for whose tools no digests are stored yet.
    pub(crate) first: RefCell<BTreeSet<ExtensionId>>,
}

/// The scan's finding of an entry that exports no function.
const NO_FACTORY: &str = "BD_DEFAULT_EXPORT";

/// Error message for an entry that exports no function.
const NOT_VALID: &str = "does not export a valid factory function";

/// Next step after a fatal error of an extension.
const FAIL_HELP: &str = "--fail-on-extension-error is set; without it the session continues with the others";

/// Error of a package that was not loaded.
struct NotLoaded {
    failure: UserError,
    /// Whether the command line or the system is the cause, so that other packages would fail alike.
    ends_run: bool,
}

impl From<UserError> for NotLoaded {
    fn from(failure: UserError) -> Self {
        Self { ends_run: failure.exit == Exit::Usage, failure }
    }
}

impl From<BuildFailure> for NotLoaded {
    fn from(failure: BuildFailure) -> Self {
        UserError::from(failure).into()
    }
}

impl From<LoadError> for NotLoaded {
    fn from(error: LoadError) -> Self {
        let ends_run = matches!(error, LoadError::Realm { error: OpenError::Unsealed(_), .. });
        Self { failure: isolation::not_loaded(&error), ends_run }
    }
}

/// Compiles extensions or finds them in the cache, with a notice when that takes long; the notice comes sooner if `at_terminal`.
/// A session without extensions passes no notices, because no user waits for the result.
pub(crate) fn preparing<R>(notices: Option<&Notices>, at_terminal: bool, compile: impl FnOnce() -> R) -> R {
    let _slow = notices.map(|notices| slow(notices, at_terminal));
    compile()
}

/// Lists as many packages as fit into one line.
fn listed(packages: &[&ExtensionId]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> = packages.iter().take(MOST).map(ToString::to_string).collect();
    if packages.len() > MOST {
        names.push(format!("{} more", packages.len() - MOST));
    }
    names.join(", ")
}

fn slow(notices: &Notices, at_terminal: bool) -> SlowTask {
    const SOON: Duration = Duration::from_millis(500);
    let what = "loading extensions";
    if at_terminal { SlowTask::after(notices, SOON, what) } else { SlowTask::begin(notices, what) }
}

/// Reports extensions that cannot be loaded: to the front end, else on stderr.
pub(crate) struct Failures<'a> {
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) notices: &'a Notices,
    /// Redacts secrets in the messages.
    pub(crate) redactor: &'a Redactor,
    /// `--fail-on-extension-error`
    pub(crate) are_fatal: bool,
}

impl Failures<'_> {
    /// Returns whether the session cannot continue without `found`.
    fn ends_session(&self, found: &PackageEntry, failure: &NotLoaded) -> bool {
        let is_needed = failure.ends_run || found.origin == DiscoveryOrigin::Named || !guard!(LoadContinues);
        is_needed || self.are_fatal
    }

    /// Reports errors of packages up to the next one that was loaded; with `None`, up to the last.
    fn take_next<'p>(
        &self,
        left: &mut impl Iterator<Item = (&'p PackageEntry, Result<Vec<Finding>, NotLoaded>)>,
        report: Option<Result<LoadReport, LoadError>>,
    ) -> Result<()> {
        for (found, prepared) in left {
            let no_factory = match prepared {
                Ok(no_factory) => no_factory,
                Err(failure) => {
                    self.take(found, failure)?;
                    continue;
                }
            };
            return match report {
                Some(Ok(report)) => {
                    failed_entries(&report, &no_factory).try_for_each(|entry| self.take(found, entry.into()))
                }
                Some(Err(error)) => self.take(found, error.into()),
                None => unreachable!("each package that was loaded has a report"),
            };
        }
        Ok(())
    }

    /// Reports why `found` was not loaded. Fails when the session cannot continue: the user named the extension for this run,
    /// requires all extensions, or the cause is not the package.
    fn take(&self, found: &PackageEntry, NotLoaded { failure, ends_run }: NotLoaded) -> Result<()> {
        let place = found.loose_file().map_or_else(|| found.id.to_string(), |file| file.display().to_string());
        if ends_run || found.origin == DiscoveryOrigin::Named || !guard!(LoadContinues) {
            return Err(failure.of_build(&clean(&place)));
        }
        if self.are_fatal {
            return Err(failure.of_build(&clean(&place)).help(FAIL_HELP));
        }
        let Some(observer) = self.observer else {
            let failure = failure.of_build(&clean(&place));
            self.notices.show(&indented(&self.redactor.text(&failure.to_string())));
            let name = match &found.name {
                Some(name) => format!("{} ({})", shown(name, MAX_SHOWN_NAME), found.id),
                None => found.id.to_string(),
            };
            self.notices.show(&format!("note: the session continues without {name}"));
            return Ok(());
        };
        let (phase, message) = ("load".to_owned(), failure.said());
        let error = ErrorReport { entry: None, phase, name: None, message, stack: None, position: None };
        let path = found.id.as_str().to_owned();
        observer.report(&ExtensionReport { extension: found.id.clone(), path, kind: ReportKind::Error(error) });
        Ok(())
    }
}

impl Loader {
    /// Loads packages, concurrently where possible, and reports in their order. A failure is reported and does not stop the
    /// others.
    ///
    /// # Errors
    ///
    /// Returns the first failure that ends the session, see [`Failures`].
    pub(crate) async fn load_all(&self, packages: &[PackageEntry], failures: &Failures<'_>) -> Result<()> {
        self.host.expect(packages.len());
        // All are compiled before the first one runs, so that none can change the code of another.
        let built = {
            let slow = slow(failures.notices, failures.observer.is_some());
            self.build_all(packages, &|left| {
                if !left.is_empty() {
                    slow.set_task(format!("preparing {}", listed(left)));
                }
            })
        };
        let mut prepared = Vec::new();
        for (found, built) in packages.iter().zip(built) {
            let package = self.prepare(found, built).await;
            let ends_run = package.as_ref().is_err_and(|failure| failures.ends_session(found, failure));
            prepared.push((found, package));
            if ends_run {
                break;
            }
        }
        let (mut names, mut ready) = (Vec::new(), Vec::new());
        for (found, package) in prepared {
            names.push((
                found,
                package.map(|(package, no_factory)| {
                    ready.push(package);
                    no_factory
                }),
            ));
        }
        // A factory may wait for a timer or a call, so the host has to run at the same time.
        let mut left = names.into_iter();
        let mut taken = Ok(());
        let take = |report| {
            taken = failures.take_next(&mut left, Some(report));
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        self.host.run(self.told(failures, self.host.load_all(ready, take))).await;
        taken?;
        failures.take_next(&mut left, None)
    }

    /// Waits for `loads`, with a notice about the remaining packages when that takes long.
    async fn told<R>(&self, failures: &Failures<'_>, loads: impl Future<Output = R>) -> R {
        let slow = slow(failures.notices, failures.observer.is_some());
        let mut loads = pin!(loads);
        // Polled after each turn of an extension.
        poll_fn(|context| {
            let loaded = loads.as_mut().poll(context);
            let left = self.host.still_loading();
            if !left.is_empty() {
                slow.set_task(format!("loading {}", listed(&left.iter().collect::<Vec<_>>())));
            }
            loaded
        })
        .await
    }

    /// Sets a package's grants and returns it ready to load, with the findings about entries that export no function.
    async fn prepare(
        &self,
        found: &PackageEntry,
        built: Result<CompiledPackage>,
    ) -> Result<(Package, Vec<Finding>), NotLoaded> {
        let built = built?;
        let notes = self.admit(found, &built)?;
        notes.iter().for_each(|note| self.environment.notices.warn(note));
        let no_factory = built.metadata.findings.iter().filter(|finding| finding.code == NO_FACTORY).cloned().collect();
        Ok((built.package(&self.supplier).await?, no_factory))
    }

    /// Sets a package's grants at the gate, and the digests of its tools at the host. Returns notes for the user.
    fn admit(&self, found: &PackageEntry, built: &CompiledPackage) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        if let Some(known) = self.grant(found, built, &mut notes)? {
            self.host.pin_tools(&found.id, known);
        }
        Ok(notes)
    }

    /// Compiles packages concurrently, or finds them in the cache.
    fn build_all(
        &self,
        packages: &[PackageEntry],
        progress: &(dyn Fn(&[&ExtensionId]) + Sync),
    ) -> Vec<Result<CompiledPackage>> {
        let readable: Vec<_> = packages.iter().map(|found| (found, self.granted_before_build(found))).collect();
        CompiledPackage::all_in_session(&self.compiler, &self.dispatcher, &self.supplier, &readable, progress)
    }

    /// Returns grants and refusals of a package whose code is not known yet.
    fn granted_before_build(&self, found: &PackageEntry) -> (Vec<Grant>, Vec<Grant>) {
        let book = self.book.borrow();
        // Answers about a local path stay valid when its code changes.
        let record = book.packages.get(found.id.as_str()).filter(|_| found.installed.is_none());
        self.decided.before_build(record)
    }

    /// Sets the grants of an extension at the gate, with a note when they are fewer, and returns the known tool digests.
    fn grant(&self, found: &PackageEntry, built: &CompiledPackage, notes: &mut Vec<String>) -> Result<Option<Digests>> {
        let profile = &built.profile;
        let who = (found.id.as_str(), found.installed);
        let mode = self.decided.policy.mode;
        let applicant =
            PackageRequest::new(&self.environment, who, (&found.root, &found.manifest), &built.metadata, mode)?;
        let book = self.book.borrow();
        let record = book.packages.get(&applicant.key);
        let held = self.decided.held(&applicant, found.origin, record);
        notes.extend(held.note.map(|note| format!("{}: {note}", applicant.id)));
        let empty = PackageRecord::new(applicant.present());
        let code = empty.code.clone();
        self.answers.expect(found.id.clone(), applicant.key.clone(), empty);
        let gate = self.dispatcher.gate();
        let wanted = self.decided.wanted(&applicant, &held.grants, &held.never);
        let (grants, unreadable) = self.decided.readable(gate, profile, held.grants);
        notes.extend(unreadable);
        gate.set_grants(profile, &grants, applicant.evidence)
            .map_err(|error| UserError::usage(format!("{}: {error}", found.id)))?;
        gate.set_wanted(profile, wanted);
        gate.set_never(profile, &held.never);
        // Digests of tools are only known of code that the user agreed to.
        let Some(record) = record.filter(|record| record.code == code) else { return Ok(None) };
        if record.tools.is_empty() {
            self.first.borrow_mut().insert(found.id.clone());
            return Ok(None);
        }
        Ok(Some(record.tools.clone()))
    }

    /// Finds and compiles the extensions again. An extension that cannot be compiled keeps its loaded version, as does one that
    /// is not found because settings cannot be read; grants are updated in all cases. The second value is the discovered
    /// packages, or `None` if discovery failed.
    pub(crate) async fn again(&self) -> (Reloaded, Option<Vec<PackageEntry>>) {
        let discovery = match Trust::read(&self.environment) {
            Ok(trust) => {
                let trusted = trust.covers(&self.environment.dirs.cwd);
                resolve_extensions(&places(&self.environment, &self.config, trusted))
            }
            Err(failure) => return (self.unchanged(vec![(RELOAD.to_owned(), failure.said())]), None),
        };
        let book = match self.answers.read() {
            Ok(book) => book,
            Err(failure) => return (self.unchanged(vec![(RELOAD.to_owned(), failure.said())]), None),
        };
        let earlier = self.book.replace(book);
        let has_same_answers = |found: &PackageEntry| {
            let key = grant_key(&self.environment.dirs, found.id.as_str(), found.installed);
            earlier.packages.get(&key) == self.book.borrow().packages.get(&key)
        };
        let mut loaded = self.host.packages();
        let mut again = Reloaded { provenance: provenance(&discovery), ..Reloaded::default() };
        let missed = discovery.problems.iter().chain(&discovery.refused);
        again.problems.extend(missed.map(|problem| (RELOAD.to_owned(), problem.to_string())));
        let keeps_missed = !again.problems.is_empty();
        let is_shared = |root: &Path| {
            let dirs = &self.environment.dirs;
            [&dirs.cwd, &dirs.home, &self.environment.temp].into_iter().any(|used| used.starts_with(root))
        };
        for found in &discovery.packages {
            let is_folder = found.installed.is_none() && found.loose_file().is_none();
            if is_folder && !is_shared(&found.root) {
                self.dispatcher.gate().add_folder(&found.id, found.root.clone());
            }
        }
        for (found, built) in discovery.packages.iter().zip(self.build_all(&discovery.packages, &|_| ())) {
            let at = loaded.iter().position(|package| *package.id() == found.id);
            let old = at.map(|at| loaded.remove(at));
            let path = found.entries.first().unwrap_or(&found.root).display().to_string();
            let held = old.as_ref().map(|old| self.held_now(old));
            match self.anew((found, built), old.as_ref().filter(|_| has_same_answers(found))).await {
                Ok((package, notes)) => {
                    again.takes_back.extend(held.map(|held| (found.id.clone(), held)));
                    again.packages.push(package);
                    again.problems.extend(notes.into_iter().map(|note| (path.clone(), note)));
                }
                Err(failure) => {
                    let stays = if old.is_some() { EARLIER_STAYS } else { "" };
                    again.problems.push((path, clean(&format!("{}{stays}", failure.said()))));
                    again.packages.extend(old);
                }
            }
        }
        if keeps_missed {
            again.packages.extend(loaded);
        }
        (again, Some(discovery.packages))
    }

    /// Returns a function that restores an extension's current grants, for a reload that keeps its code.
    fn held_now(&self, package: &Package) -> Box<dyn Fn()> {
        let (gate, answers) = (self.dispatcher.gate().clone(), Arc::clone(&self.answers));
        let (profile, id) = (package.profile.clone(), package.id().clone());
        let (held, expected) = (gate.held(&profile), answers.expected(&id));
        Box::new(move || {
            gate.restore(&profile, held.clone());
            if let Some((key, record)) = expected.clone() {
                answers.expect(id.clone(), key, record);
            }
        })
    }

    /// Returns the package in its current state on disk, or `old` with its grants if the code is unchanged.
    async fn anew(
        &self,
        (found, built): (&PackageEntry, Result<CompiledPackage>),
        old: Option<&Package>,
    ) -> Result<(Package, Vec<String>)> {
        let built = built?;
        if let Some(old) = old.filter(|old| built.is(old)) {
            return Ok((old.clone(), Vec::new()));
        }
        let package = built.clone().package(&self.supplier).await?;
        let notes = self.admit(found, &built)?;
        Ok((package, notes))
    }

    fn unchanged(&self, problems: Vec<(String, String)>) -> Reloaded {
        Reloaded { packages: self.host.packages(), problems, ..Reloaded::default() }
    }

    /// Stores the digests of tools of extensions in their first session, and of tools that the user agreed to in this one.
    pub(crate) fn keep_tools(&self) {
        for extension in self.first.take() {
            let digests = self.host.tool_digests(&extension);
            if !digests.is_empty() {
                self.answers.keep_tools(&extension, digests);
            }
        }
    }
}

/// Returns the errors of a package's entries; the others run. `no_factory` are the compiler's findings about entries that export
/// no function, which are more precise than the run-time error.
fn failed_entries(report: &LoadReport, no_factory: &[Finding]) -> impl Iterator<Item = UserError> {
    report.failures().map(|(path, error)| {
        let is_it = |finding: &&Finding| error.message.contains(NOT_VALID) && Path::new(path).ends_with(&finding.file);
        if let Some(Finding { file, line, column, message, help, .. }) = no_factory.iter().find(is_it) {
            let what = format!("Failed to load extension \"{path}\": {message}\n  at {file}:{line}:{column}");
            let failure = UserError::failed(clean(&what));
            return help.iter().fold(failure, |failure, help| failure.help(clean(help)));
        }
        let place = error
            .position
            .as_ref()
            .map(|at| format!("\n  at {}:{}:{}", at.file, at.line, at.column))
            .unwrap_or_default();
        let message = error.message.strip_prefix("Failed to load extension: ").unwrap_or(&error.message);
        let failure = UserError::failed(clean(&format!("Failed to load extension \"{path}\": {message}{place}")));
        match missing_package(message) {
            Some(name) => failure.help(clean(&format!(
                "add {name} to `dependencies` in its package.json, then run `npm install` in its folder, or `pi install` of it"
            ))),
            None => failure,
        }
    })
}

/// Returns the package that an error of Node's module loader is about.
fn missing_package(message: &str) -> Option<&str> {
    let (name, _) = message.strip_prefix("Cannot find module '")?.split_once('\'')?;
    (!name.starts_with(['.', '/'])).then_some(name)
}

/// Replaces the name of an extension in the report of a reload that failed as a whole.
const RELOAD: &str = "<reload>";

/// Prefix of pi's error about an unknown flag.
pub const UNKNOWN_OPTION: &str = "Unknown option";

/// Sets the flags that extensions registered; returns pi's errors about unknown flags.
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
