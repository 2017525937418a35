//! Reviews a package before it replaces anything: it must compile, its manifest must be valid, and the user must agree.
//!
//! [`Reviewer`] is the builder of an installer. A refused package changes neither the store nor the grants; the decisions about
//! an accepted package are stored once it is in place.

use super::Bar;
use super::outlook::{Outlook, depends_on};
use crate::consent::{self, Answerer, InstallConsent, InstallDecision, NotInstalled};
use crate::output::clean;
use crate::terminal::Terminal;
use pijs_environment::SystemTimer;
use pijs_extc::{BuildFailure, BuildOutput, Diagnostic};
use pijs_hostcall::grant_store::GrantStore;
use pijs_hostcall::{Gate, Grant, Mode, Policy, Profile};
use pijs_packages::{
    BuildInput, BuildReport, Builder, InstallCode, InstallScope, PackageError, PackageManifest, realms,
};
use pijs_protocol::ExtensionId;
use pijs_protocol::artifact::Finding;
use pijs_protocol::guard;
use pijs_runtime::Environment;
use pijs_runtime::compile::{Compiler, input_of};
use pijs_runtime::grant_file::GrantFile;
use pijs_runtime::grants::UserDecisions;
use pijs_runtime::package_request::{PackageRequest, check_declared};
use pijs_runtime::{Exit, Result, UserError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Reviews the packages of one command.
pub(super) struct Reviewer {
    environment: Environment,
    compiler: Compiler,
    /// The policy mode of the settings.
    mode: Mode,
    pub(super) command: InstallCommand,
    bar: Arc<Bar>,
    /// Decisions about packages that are being installed, by id.
    reviews: Mutex<BTreeMap<String, Vec<Review>>>,
    findings: Mutex<Findings>,
    /// Remarks of the builds, by package id.
    remarks: Mutex<BTreeMap<String, Vec<String>>>,
}

/// The installing command.
#[derive(Debug, Clone)]
pub(super) struct InstallCommand {
    /// Name of the command: `install` or `update`.
    pub(super) command: &'static str,
    /// The source that the command names; `None` if it covers all packages.
    pub(super) source: Option<String>,
    pub(super) local: bool,
    /// Whether `--yes` was given.
    pub(super) yes: bool,
}

impl InstallCommand {
    /// Returns the command for one package, as the user would type it.
    pub(super) fn of(&self, id: &str) -> String {
        let local = if self.local { " -l" } else { "" };
        clean(&format!("pi {} {}{local}", self.command, self.source.as_deref().unwrap_or(id)))
    }
}

struct Review {
    applicant: PackageRequest,
    decision: InstallDecision,
}

/// Findings of the scan, by package id.
type Findings = BTreeMap<String, Vec<Finding>>;

/// A package under review, in staging or in its place.
pub(super) struct Reviewed<'a> {
    pub(super) id: &'a str,
    pub(super) root: &'a Path,
    /// The package's final folder.
    pub(super) place: &'a Path,
    pub(super) entries: &'a [PathBuf],
    pub(super) scope: InstallScope,
}

impl Reviewer {
    /// Reads the inputs of all reviews, so that nothing is installed if one of them cannot be read.
    pub(super) fn new(environment: &Environment, command: InstallCommand, bar: Arc<Bar>) -> Result<Self> {
        let this = Self {
            environment: environment.clone(),
            compiler: Compiler::new(environment),
            mode: UserDecisions::of_settings(environment)?.policy.mode,
            command,
            bar,
            reviews: Mutex::default(),
            findings: Mutex::default(),
            remarks: Mutex::default(),
        };
        this.file().read()?;
        Ok(this)
    }

    /// Returns the findings of the scan of a reviewed package.
    pub(super) fn findings(&self, id: &str) -> Vec<Finding> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned().unwrap_or_default()
    }

    /// Returns the build remarks of a reviewed package.
    pub(super) fn remarks(&self, id: &str) -> Vec<String> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned().unwrap_or_default()
    }

    fn file(&self) -> GrantFile {
        GrantFile::new(&self.environment, Arc::new(SystemTimer::new()))
    }

    /// Compiles the realms of a package separately.
    fn compile_all(&self, package: &Reviewed<'_>) -> Result<Vec<(ExtensionId, BuildOutput)>, BuildFailure> {
        let id = ExtensionId::new(package.id);
        let realms = realms(&id, package.root, package.entries).into_iter();
        let built = realms.map(|(id, entries)| {
            let output = self.compiler.build(id.as_str(), &input_of(id.as_str(), package.root, &entries))?;
            Ok((id, output))
        });
        built.collect()
    }

    /// Reviews a package whose realms are compiled. `replaces` means that another version is already installed.
    fn review(
        &self,
        package: &Reviewed<'_>,
        built: &[(ExtensionId, BuildOutput)],
        replaces: bool,
    ) -> Result<Result<Vec<Review>, NotInstalled>> {
        let Reviewed { root, place, scope, .. } = *package;
        let manifest = PackageManifest::read(root)?;
        let applicants = built.iter().map(|(id, output)| {
            let (who, metadata) = ((id.as_str(), Some(scope)), output.metadata());
            PackageRequest::staged(&self.environment, who, (root, &manifest), place, &metadata, self.mode)
        });
        let applicants = applicants.collect::<Result<Vec<_>>>()?;
        let terminal = Terminal::default();
        let has_user = self.environment.stdin_is_terminal && self.environment.stderr_is_terminal;
        // An install of a named package covers all requests, including those that were declined or revoked before.
        let anew = self.command.command == "install" && self.command.source.is_some();
        let who = match (self.command.yes, has_user) {
            (true, _) => Answerer::Yes { anew },
            (false, true) => Answerer::User { terminal: &terminal, anew },
            (false, false) => Answerer::None,
        };
        let book = self.file().read()?;
        if replaces {
            applicants.iter().try_for_each(|applicant| self.check_scopes(&book, applicant, package))?;
        }
        let findings: Vec<Finding> = built.iter().flat_map(|(_, output)| output.metadata().findings).collect();
        let depends = |library: &str, name: &str| depends_on(root, library, name);
        let outlook = Outlook::new(&findings, !package.entries.is_empty(), false, &depends);
        let asked: Vec<&PackageRequest> = applicants.iter().collect();
        let decided = self.bar.suspend(|| consent::decide(&book, &asked, &who, self.mode, (replaces, &outlook)));
        Ok(decided.map(|decisions| {
            let reviews = applicants.into_iter().zip(decisions);
            reviews.map(|(applicant, decision)| Review { applicant, decision }).collect()
        }))
    }

    /// Fails for an invalid scope, which would grant nothing and thereby lose the grants of the installed version.
    fn check_scopes(&self, book: &GrantStore, applicant: &PackageRequest, package: &Reviewed<'_>) -> Result<()> {
        let known = book.packages.get(&applicant.key).map(|record| record.asked.as_slice()).unwrap_or_default();
        let gate = Gate::builder(Policy::default(), self.environment.places()).build();
        let profile = Profile::new(package.id).at(package.root);
        for request in applicant.asked.capabilities.iter().filter(|request| !known.contains(request)) {
            if let Err(error) = gate.check(&profile, &Grant::accepting("", request)) {
                let capability = &request.capability;
                return Err(UserError::failed(format!("the scope of {capability} cannot be used: {error}")));
            }
        }
        Ok(())
    }

    /// Stores the decisions about a package that has been put in place, for each of its realms.
    pub(super) fn keep(&self, package: &Reviewed<'_>) -> Result<Vec<(PackageRequest, InstallConsent)>> {
        let reviewed = self.reviews.lock().unwrap_or_else(PoisonError::into_inner).remove(package.id);
        let reviews = match reviewed {
            Some(reviews) => reviews,
            None => {
                let reviewed = self.review(package, &self.compile_all(package)?, false)?;
                reviewed
                    .map_err(|_| UserError::failed(format!("{}: its grants were not answered", clean(package.id))))?
            }
        };
        let file = self.file();
        let kept = reviews.into_iter().map(|Review { applicant, decision }| {
            let consent = decision.keep(&file, &applicant)?;
            Ok((applicant, consent))
        });
        kept.collect()
    }
}

impl Builder for Reviewer {
    fn build(&self, input: &BuildInput) -> pijs_packages::Result<BuildReport> {
        // Skills, prompts and themes need no compilation.
        if input.entries.is_empty() {
            let checked = check_declared(&input.root);
            return checked.map(|()| BuildReport::default()).map_err(|failure| refusal(input, failure));
        }
        let BuildInput { id, root, place, entries, scope, .. } = input;
        let package = Reviewed { id, root, place, entries, scope: *scope };
        let built = self.compile_all(&package).map_err(|failure| not_built(input, &failure))?;
        if guard!(InstallReview) {
            let review = self
                .review(&package, &built, input.replaces.is_some())
                .map_err(|failure| refusal(input, failure))?
                .map_err(|refused| match refused {
                    NotInstalled::Widened(more) => wider_update(input, &more, &self.command.of(&input.id)),
                    NotInstalled::ByUser => {
                        PackageError::new(InstallCode::Consent, input.id.clone(), "not installed, as you chose")
                    }
                })?;
            self.reviews.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), review);
        }
        let findings = built.iter().flat_map(|(_, output)| output.metadata().findings).collect();
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), findings);
        let warnings: Vec<String> =
            built.iter().flat_map(|(id, output)| remarks(id.as_str(), &output.diagnostics)).collect();
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), warnings.clone());
        Ok(BuildReport { warnings })
    }
}

/// Returns the remarks of a build without duplicates: the package, the first position, and the number of further ones.
fn remarks(id: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    for diagnostic in diagnostics {
        let what = diagnostic.to_string();
        let place = diagnostic.place().map(|place| format!("{}:{}:{}", place.file, place.line, place.column));
        match places.iter_mut().find(|(known, _)| *known == what) {
            Some((_, known)) => known.extend(place),
            None => places.push((what, place.into_iter().collect())),
        }
    }
    let line = |(what, places): (String, Vec<String>)| match places.as_slice() {
        [] => format!("{id}: {what}"),
        [place] => format!("{id}: {place}: {what}"),
        [first, more @ ..] => format!("{id}: {first} (and {} more): {what}", more.len()),
    };
    places.into_iter().map(line).collect()
}

/// Returns the error for a package that does not compile.
pub(super) fn not_built(input: &BuildInput, failure: &BuildFailure) -> PackageError {
    let why = format!("it does not build\n\n{}", failure.render(false));
    PackageError::new(InstallCode::Build, input.id.clone(), why)
}

/// Converts a failure to the error of the install.
fn refusal(input: &BuildInput, failure: UserError) -> PackageError {
    let code = if failure.exit == Exit::Refused { InstallCode::Denied } else { InstallCode::Manifest };
    let (message, help) = failure.into_parts();
    let message = message.strip_prefix(&format!("{}: ", input.id)).unwrap_or(&message);
    let error = PackageError::new(code, input.id.clone(), message);
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

/// Returns the error for an update that requests more and cannot prompt.
fn wider_update(input: &BuildInput, more: &[String], accept: &str) -> PackageError {
    let version = |version: Option<&str>| version.filter(|version| !version.is_empty()).map(clean);
    let now = version(input.replaces.as_deref()).unwrap_or_else(|| "the installed version".to_owned());
    let new = version(input.version.as_deref()).unwrap_or_else(|| "the new version".to_owned());
    let mut message = format!("{new} requests more than it was granted, so {now} stays:");
    more.iter().for_each(|words| message.push_str(&format!("\n  + {words}")));
    PackageError::new(InstallCode::Consent, input.id.clone(), message)
        .help(format!("accept it with: {accept} --yes, or run it at a terminal without --yes to answer a prompt"))
}
