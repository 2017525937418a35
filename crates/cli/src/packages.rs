//! `pi install`, `pi update`, `pi remove`, `pi list`.

mod outlook;
mod review;

use crate::args::{InstallArgs, PackageArgs, RemoveArgs, UpdateArgs};
use crate::consent::{self, InstallConsent, one_line};
use crate::output::{clean, indented, stderr, stdout};
use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use outlook::Outlook;
use outlook::depends_on;
use pijs_environment::SystemTimer;
use pijs_packages::{
    BuildInput, BuildReport, Builder, DiscoverOptions, Discovery, GitOptions, InstallCode, InstallProgress,
    InstallScope, Installed, Installer, PackageAttempt, PackageEntry, count_resources, package_of_realm, realms,
    resolve_extensions,
};
use pijs_protocol::ExtensionId;
use pijs_runtime::Environment;
use pijs_runtime::compile::{Compiler, input_of};
use pijs_runtime::grant_file::GrantFile;
use pijs_runtime::made_files::MadeFolder;
use pijs_runtime::package_request::{PackageRequest, grant_key};
use pijs_runtime::pi_texts;
use pijs_runtime::similar_names;
use pijs_runtime::slow_task::SlowTask;
use pijs_runtime::supply::Supplier;
use pijs_runtime::trust::Trust;
use pijs_runtime::{Result, UserError};
use pijs_terminal::counted;
use review::{InstallCommand, Reviewed, Reviewer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Minimum age of a version that an update installs: most hijacked versions are discovered within this time.
const UPDATES_WAIT: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Maximum time that an install waits for optional downloads.
const PATIENCE: Duration = Duration::from_secs(60);

/// `pi install [SOURCE]...`: installs the sources one after the other; a failure does not prevent the other installs.
pub(crate) async fn install_all(environment: &Environment, args: &InstallArgs) -> Result<()> {
    let mut failed = Failed::default();
    for one in args.each() {
        failed.note(install(environment, &one).await);
    }
    failed.into_result()
}

/// `pi install [SOURCE]`.
pub(crate) async fn install(environment: &Environment, args: &InstallArgs) -> Result<()> {
    let progress = Arc::new(Bar::new(environment));
    let PackageArgs { local, yes, .. } = args.common;
    let command = InstallCommand { command: "install", source: args.source.clone(), local, yes };
    let reviewer = Arc::new(Reviewer::new(environment, command, Arc::clone(&progress))?);
    let attempts = install_with(environment, args, &progress, Arc::clone(&reviewer) as _).await;
    progress.finish();
    let attempts = attempts?;
    let mut failed = Failed::default();
    for PackageAttempt { outcome, .. } in attempts {
        let told = match outcome {
            Ok(installed) => match finish_install(environment, &reviewer, &installed, args) {
                Ok(outlook) => {
                    fetch_supplied(environment, &installed, args.common.registry.as_deref()).await;
                    if args.is_fetched() {
                        // The registry has answered, so the first session need not probe it.
                        pi_texts::prepare(environment).await;
                    }
                    // The outlook is the last line of the output.
                    outlook.iter().for_each(|line| stderr(line));
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
            Err(error) => Err(error.into()),
        };
        failed.note(told);
    }
    failed.into_result()
}

/// Collects the failures of several packages.
#[derive(Default)]
struct Failed(Option<UserError>);

impl Failed {
    /// Reports all failures but the last one, which becomes the result of the command.
    fn note(&mut self, outcome: Result<()>) {
        if let Err(failure) = outcome
            && let Some(before) = self.0.replace(failure)
        {
            stderr(&before.to_string());
        }
    }

    fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Fetches the packages that pi supplies to a package, so that its first session needs no network. A failure does not prevent the
/// install.
async fn fetch_supplied(environment: &Environment, installed: &Installed, registry: Option<&str>) {
    if installed.entries.is_empty() {
        return;
    }
    let compiler = Compiler::new(environment);
    let _slow =
        SlowTask::begin(&environment.notices, format!("fetching the packages that pi supplies to {}", installed.id));
    let fetched = async {
        let supplier = Supplier::new(environment, compiler.cache()).registry(registry);
        for (id, entries) in realms(&ExtensionId::new(&*installed.id), root(installed), &installed.entries) {
            let output = compiler.build(id.as_str(), &input_of(id.as_str(), root(installed), &entries))?;
            // Only the fetch is limited: a slow build is no failure of the registry.
            let metadata = output.metadata();
            let fetch = tokio::time::timeout(PATIENCE, supplier.for_extension(&metadata));
            let late = |_| UserError::failed(format!("the registry took more than {} s", PATIENCE.as_secs()));
            fetch.await.map_err(late)??;
        }
        Ok::<_, UserError>(())
    };
    if let Err(failure) = fetched.await {
        let reason = failure.to_string();
        stderr(&format!(
            "warning: {}: the packages that pi supplies to it could not be fetched; the first session that loads it tries again\n  {}",
            clean(&installed.id),
            indented(&clean(&reason)),
        ));
    }
}

/// Returns the folder of a package; for a single file, its parent folder.
fn root(installed: &Installed) -> &Path {
    if installed.path.is_file() { installed.path.parent().unwrap_or(&installed.path) } else { &installed.path }
}

/// Stores the consent and prints the install; returns the outlook of the package, which is the last line.
fn finish_install(
    environment: &Environment,
    reviewer: &Reviewer,
    installed: &Installed,
    args: &InstallArgs,
) -> Result<Option<String>> {
    // A package without code does not need consent.
    let agreed = match installed.entries.is_empty() {
        true => Vec::new(),
        false => consent_to(reviewer, installed, args.common.local)?,
    };
    let warnings = distinct(&installed.warnings);
    let missing = agreed.iter().any(|(_, consent)| !consent.missing.is_empty());
    let depends = |library: &str, name: &str| depends_on(root(installed), library, name);
    let findings = reviewer.findings(&installed.id);
    let outlook = Outlook::new(&findings, is_useful(installed), missing, &depends);
    let is_detail = !matches!(outlook, Outlook::WillNotWork(_));
    warn(&warnings, is_detail, (&reviewer.remarks(&installed.id), findings.len()), &installed.id);
    if args.common.json {
        let document = json!({
            "id": installed.id, "source": installed.source, "version": installed.version, "path": installed.path,
            "entries": installed.entries, "dependencies": installed.dependencies, "warnings": warnings, "outlook": outlook.to_string(),
            "granted": of_all(&agreed, |consent| consent.granted.clone()), "missing": of_all(&agreed, |consent| consent.missing.clone()),
            "resources": resources(installed),
        });
        stdout(&document.to_string());
        return Ok(None);
    }
    let version = installed.version.as_deref().map(|version| format!(" {}", one_line(version, ""))).unwrap_or_default();
    let verb = if installed.is_new { "installed" } else { "already installed:" };
    stderr(&format!("{verb} {}{version}", clean(&named(installed))));
    if let Some(name) = args.source.as_deref().filter(|source| installed.id.strip_prefix("npm:") == Some(source))
        && environment.dirs.cwd.join(name).is_dir()
    {
        stderr(&clean(&format!("note: this is {name} of the registry; the folder of this name is ./{name}")));
    }
    stderr(&format!("  {} in {}", contents(installed), clean(&installed.path.display().to_string())));
    if installed.dependencies > 0 {
        let dependencies = counted(installed.dependencies, "dependency");
        stderr(&format!("  with {dependencies}; their install scripts were not run"));
    }
    if args.common.local && !Trust::read(environment)?.covers(&environment.dirs.cwd) {
        stderr("note: packages of this folder are loaded once you run: pi trust");
    }
    for (applicant, consent) in &agreed {
        consent.unseen().iter().for_each(|line| stderr(&format!("  {line}")));
        consent::explain_missing(applicant, consent, &reviewer.command.of(&installed.id));
    }
    Ok(Some(clean(&format!("{}: {outlook}", named(installed)))))
}

/// Merges the metadata of a package's realms, without duplicates; `None` for a package without code.
fn of_all<T: PartialEq>(
    agreed: &[(PackageRequest, InstallConsent)],
    part: impl Fn(&InstallConsent) -> Vec<T>,
) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for one in agreed.iter().flat_map(|(_, consent)| part(consent)) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    (!agreed.is_empty()).then_some(all)
}

/// Suffix of the installer's warning about an omitted native dependency.
const NATIVE: &str = " is a native binary for one system; skipped";

/// Maximum number of native binaries that are named.
const MAX_NAMED: usize = 3;

/// Prints the warnings about a package. With `is_detail`, skipped scripts and `remarks` about its code are collapsed to one line
/// each; the caller sets it when the package works. `listed` is the number of remarks that `pi ext show` lists, one for each place.
fn warn(warnings: &[&String], is_detail: bool, (remarks, listed): (&[String], usize), id: &str) {
    let is_script = |warning: &&&String| is_detail && warning.starts_with("IN_SCRIPT");
    let is_remark = |warning: &&&String| is_detail && remarks.contains(**warning);
    let (scripts, rest): (Vec<&&String>, Vec<&&String>) = warnings.iter().partition(is_script);
    let (remarks, rest): (Vec<&&String>, Vec<&&String>) = rest.into_iter().partition(is_remark);
    let (native, rest): (Vec<&&String>, Vec<&&String>) =
        rest.into_iter().partition(|warning| warning.ends_with(NATIVE));
    rest.iter().for_each(|warning| stderr(&format!("warning: {}", clean(warning))));
    match native.as_slice() {
        [] => {}
        [one] => stderr(&format!("warning: {}", clean(one))),
        several => {
            let names: Vec<String> = several.iter().map(|one| clean(one.trim_end_matches(NATIVE))).collect();
            let (count, shown) = (names.len(), names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", "));
            let more = count.saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            stderr(&format!("warning: {count} native binaries for one system; skipped: {shown}{more}"));
        }
    }
    match scripts.as_slice() {
        [] => {}
        [script] => {
            let script = script.trim_start_matches("IN_SCRIPT: ");
            stderr(&format!("note: {}", clean(script)));
        }
        scripts => stderr(&format!("note: {} install scripts were not run", scripts.len())),
    }
    if !remarks.is_empty() {
        let count = listed.max(remarks.len());
        stderr(&format!("note: {} about its code: pi ext show {}", counted(count, "remark"), clean(id)));
    }
}

/// Returns the display name of an installed package.
fn named(installed: &Installed) -> String {
    with_name(installed.name.as_deref(), &installed.id, &installed.id)
}

/// Returns the display name of a package: the name in its manifest, unless the id contains it, and its `source`.
fn with_name(name: Option<&str>, id: &str, source: &str) -> String {
    match name {
        Some(name) if !id.starts_with("npm:") => format!("{} ({source})", one_line(name, "")),
        _ => source.to_owned(),
    }
}

/// Returns whether a package has anything that pi loads.
fn is_useful(installed: &Installed) -> bool {
    !installed.entries.is_empty() || !resources(installed).is_empty()
}

/// Returns the warnings in their order, without duplicates.
fn distinct(warnings: &[String]) -> Vec<&String> {
    let mut seen = std::collections::BTreeSet::new();
    warnings.iter().filter(|warning| seen.insert(warning.as_str())).collect()
}

/// Returns the number of skills, prompts and themes of a package, by kind.
fn resources(installed: &Installed) -> BTreeMap<&'static str, usize> {
    let counted = if installed.path.is_dir() { count_resources(&installed.path).to_vec() } else { Vec::new() };
    counted.into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| (kind.key(), count)).collect()
}

/// Describes the contents of a package.
fn contents(installed: &Installed) -> String {
    let plural = |(kind, count): (&str, usize)| {
        let one = kind.trim_end_matches('s');
        if count == 1 { format!("1 {one}") } else { format!("{count} {kind}") }
    };
    let extensions = Some(installed.entries.len()).filter(|count| *count > 0).map(|count| counted(count, "extension"));
    let words: Vec<String> = extensions.into_iter().chain(resources(installed).into_iter().map(plural)).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// Stores the decisions about an installed package, which were made before it was put in place.
fn consent_to(
    reviewer: &Reviewer,
    installed: &Installed,
    local: bool,
) -> Result<Vec<(PackageRequest, InstallConsent)>> {
    let (id, root) = (installed.id.as_str(), root(installed));
    reviewer.keep(&Reviewed { id, root, place: root, entries: &installed.entries, scope: scope(local) })
}

/// Installs with consent and without output.
pub(crate) async fn install_quietly(environment: &Environment, args: &InstallArgs) -> Result<Vec<Installed>> {
    let compiler = Compiler::new(environment);
    let builder = move |input: &BuildInput| -> pijs_packages::Result<BuildReport> {
        for (id, entries) in realms(&ExtensionId::new(&*input.id), &input.root, &input.entries) {
            let built = compiler.build(id.as_str(), &input_of(id.as_str(), &input.root, &entries));
            built.map_err(|failure| review::not_built(input, &failure))?;
        }
        Ok(BuildReport::default())
    };
    let progress = Arc::new(Bar::new(environment));
    let attempts = install_with(environment, args, &progress, Arc::new(builder)).await;
    progress.finish();
    attempts?.into_iter().map(|attempt| attempt.outcome.map_err(UserError::from)).collect()
}

async fn install_with(
    environment: &Environment,
    args: &InstallArgs,
    progress: &Arc<Bar>,
    builder: Arc<dyn Builder>,
) -> Result<Vec<PackageAttempt>> {
    let installer = installer(environment, args.common.registry.as_deref(), progress, builder)?;
    let installer = installer.similar_names(args.similar_name);
    let scope = scope(args.common.local);
    match &args.source {
        Some(source) => {
            let installed = installer.install(source, scope).await?;
            Ok(vec![PackageAttempt { id: installed.id.clone(), outcome: Ok(installed) }])
        }
        None => {
            let attempts = installer.restore(scope).await?;
            if attempts.is_empty() && !args.common.json {
                let listed = installer.list()?.iter().filter(|listed| listed.scope == scope).count();
                stderr(&match listed {
                    0 => "nothing to do: no package is listed in the settings; install one with: pi install SOURCE"
                        .to_owned(),
                    1 => "nothing to do: the one package is in place".to_owned(),
                    count => format!("nothing to do: all {count} packages are in place"),
                });
            }
            Ok(attempts)
        }
    }
}

/// `pi update [SOURCE]`.
pub(crate) async fn update(environment: &Environment, args: &UpdateArgs) -> Result<()> {
    let progress = Arc::new(Bar::new(environment));
    let PackageArgs { local, yes, .. } = args.common;
    let command = InstallCommand { command: "update", source: None, local, yes };
    let reviewer = Arc::new(Reviewer::new(environment, command, Arc::clone(&progress))?);
    let registry = args.common.registry.as_deref();
    let mut installer = installer(environment, registry, &progress, Arc::clone(&reviewer) as _)?;
    if !args.no_wait {
        installer = installer.not_newer_than(std::time::SystemTime::now() - UPDATES_WAIT);
    }
    let attempts = installer.update(args.source.as_deref(), scope(args.common.local)).await;
    progress.finish();
    let attempts = attempts?;
    if attempts.is_empty() && !args.common.json {
        let wait =
            if args.no_wait { "" } else { "; versions younger than three days are skipped (--no-wait installs them)" };
        stderr(&format!("nothing to update{wait}"));
    }
    let (mut failed, mut documents) = (Failed::default(), Vec::new());
    for PackageAttempt { id, outcome } in attempts {
        documents.push(document(&id, &outcome));
        match outcome {
            Ok(installed) => failed.note(updated(environment, &reviewer, &installed, args).await),
            // The installed version stays in use, which is not a failure.
            Err(error) if error.code == InstallCode::Consent => stderr(&indented(&format!("not updated: {error}"))),
            Err(error) => failed.note(Err(error.into())),
        }
    }
    if args.common.json {
        stdout(&Value::from(documents).to_string());
    }
    failed.into_result()
}

/// Returns the result of an update as JSON.
fn document(id: &str, outcome: &pijs_packages::Result<Installed>) -> Value {
    match outcome {
        Ok(installed) => json!({ "id": id, "version": installed.version, "warnings": installed.warnings }),
        Err(error) => json!({ "id": id, "error": { "code": error.code.as_str(), "message": error.message } }),
    }
}

/// Stores the decisions about an updated package, and prints its tools and commands.
async fn updated(
    environment: &Environment,
    reviewer: &Reviewer,
    installed: &Installed,
    args: &UpdateArgs,
) -> Result<()> {
    let mut brought = Vec::new();
    if !installed.entries.is_empty() {
        let consents = consent_to(reviewer, installed, args.common.local)?;
        brought = consents.iter().flat_map(|(_, consent)| consent.unseen()).collect();
    }
    if args.common.json {
        return Ok(());
    }
    fetch_supplied(environment, installed, args.common.registry.as_deref()).await;
    for warning in distinct(&installed.warnings) {
        stderr(&format!("warning: {}", clean(warning)));
    }
    stderr(&format!(
        "updated {} to {}",
        clean(&installed.id),
        one_line(installed.version.as_deref().unwrap_or("-"), "")
    ));
    brought.iter().for_each(|line| stderr(&format!("  {line}")));
    Ok(())
}

/// Returns the options for git, with the absolute path of the first git in `PATH`.
fn git(environment: &Environment) -> GitOptions {
    let path = environment.variable("PATH").unwrap_or_default();
    let program = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("git"))
        .find(|program| program.is_file());
    let ssh = ["HOME", "SSH_AUTH_SOCK"];
    let ssh = ssh.into_iter().filter_map(|name| Some((name.into(), environment.variable(name)?.into()))).collect();
    GitOptions { program, path: path.into(), ssh }
}

fn installer(
    environment: &Environment,
    registry: Option<&str>,
    progress: &Arc<Bar>,
    builder: Arc<dyn Builder>,
) -> Result<Installer> {
    let installer = Installer::new(environment.dirs.clone(), environment.npm_config(registry)?, builder)?;
    Ok(installer.progress(Arc::clone(progress) as _).git(git(environment)))
}

pub(crate) fn remove(environment: &Environment, args: &RemoveArgs) -> Result<()> {
    let _slow = SlowTask::begin(&environment.notices, format!("removing {}: waiting for the disk", args.source));
    let removed = reader(environment)?.remove(&args.source, scope(args.local))?;
    // Another package with this name later prompts anew and does not inherit files.
    let of = |id: &str| grant_key(&environment.dirs, id, Some(scope(args.local)));
    let own = of(&removed.id);
    let keys = GrantFile::new(environment, Arc::new(SystemTimer::new())).change(|book| {
        // The components of the package are removed as well. Their keys begin with the package's id and have the same suffix as
        // all keys of the scope.
        let end = own.strip_prefix(&removed.id).unwrap_or_default();
        let is_its = |key: &str| {
            let id = key.strip_suffix(end).unwrap_or(key);
            key == own || package_of_realm(id).is_some_and(|package| package == removed.id && of(id) == key)
        };
        let mut keys: Vec<String> = book.packages.keys().filter(|key| is_its(key)).cloned().collect();
        keys.iter().for_each(|key| _ = book.packages.remove(key));
        keys.push(own.clone());
        keys
    })?;
    for key in keys {
        let forgotten = MadeFolder::new(environment).forget(&key);
        forgotten.map_err(|error| {
            UserError::failed(format!("{}: the record of its files could not be removed: {error}", clean(&key)))
        })?;
    }
    stderr(&clean(&format!("removed {}", with_name(removed.name.as_deref(), &removed.id, &removed.id))));
    Ok(())
}

pub(crate) fn list(environment: &Environment, json: bool) -> Result<()> {
    let listed = reader(environment)?.list()?;
    if json {
        let documents: Vec<_> = listed
            .iter()
            .map(|package| {
                json!({
                    "id": package.id, "name": package.name, "scope": scope_name(package.scope), "source": package.source,
                    "version": package.version, "path": package.path, "present": package.present,
                })
            })
            .collect();
        stdout(&serde_json::Value::from(documents).to_string());
        return Ok(());
    }
    if listed.is_empty() {
        stderr("no packages; install one with: pi install SOURCE");
    }
    for package in listed {
        let version = one_line(package.version.as_deref().unwrap_or("-"), "");
        let missing = if package.present { "" } else { "  (missing: install it again)" };
        let line = format!(
            "{:<8} {} {version}  {}{missing}",
            scope_name(package.scope),
            with_name(package.name.as_deref(), &package.id, &package.source),
            package.path.display()
        );
        stdout(&clean(&line));
    }
    Ok(())
}

/// `pi ext list`: lists the extensions that a session would load here, in load order.
pub(crate) fn loaded(environment: &Environment, named: Vec<String>, as_json: bool) -> Result<()> {
    let found = discovered(environment, named)?;
    let mut servers = crate::mcp::documents(environment)?;
    let brought = found.packages.iter().flat_map(|package| crate::mcp::documents_of(environment, package));
    servers.extend(brought.collect::<Vec<_>>());
    let plugins = crate::rummy::external_plugins(environment)?;
    if as_json {
        let mut documents: Vec<_> = found.packages.iter().map(|package| json!({
            "id": package.id, "name": package.name, "root": package.root, "entries": package.entries, "origin": format!("{:?}", package.origin),
        })).collect();
        documents
            .extend(plugins.iter().map(|plugin| json!({ "id": plugin.id, "name": plugin.name, "origin": "rummy" })));
        documents.extend(servers);
        stdout(&serde_json::Value::from(documents).to_string());
        return Ok(());
    }
    for package in &found.packages {
        stdout(&clean(&shown_name(package)));
        for entry in &package.entries {
            stdout(&format!("  {}", clean(&entry.display().to_string())));
        }
    }
    for plugin in &plugins {
        stdout(&clean(&format!("{} ({}, with pi rummy)", plugin.name, plugin.id)));
    }
    servers.iter().for_each(|server| stdout(&clean(&crate::mcp::line(server))));
    if found.packages.is_empty() && servers.is_empty() && plugins.is_empty() {
        stderr("no extensions; install one with: pi install SOURCE, or name one with: -e PATH");
    }
    Ok(())
}

/// Returns an extension by its name, source or path. It may be an extension that would be loaded here, or one that can be named
/// with `-e`.
pub(crate) fn find_package(environment: &Environment, which: &str) -> Result<PackageEntry> {
    let found = discovered(environment, Vec::new())?;
    let path = environment.dirs.cwd.join(which).canonicalize().ok().map(|path| format!("path:{}", path.display()));
    let identified = |package: &&PackageEntry| {
        let id = package.id.as_str();
        id == which || id.strip_prefix("npm:") == Some(which) || Some(id) == path.as_deref()
    };
    if let Some(package) = found.packages.iter().find(identified) {
        return Ok(package.clone());
    }
    // A folder can be named by the name in its manifest, if no other extension has that name.
    let named: Vec<&PackageEntry> = found
        .packages
        .iter()
        .filter(|package| package.name.as_deref() == Some(which) && package_of_realm(package.id.as_str()).is_none())
        .collect();
    match named.as_slice() {
        [package] => return Ok((*package).clone()),
        [] => {}
        several => {
            let ids: Vec<&str> = several.iter().map(|package| package.id.as_str()).collect();
            let which = clean(which);
            return Err(UserError::failed(format!("{which}: {} packages have this name", several.len()))
                .help(format!("say which: {}", clean(&ids.join(", ")))));
        }
    }
    let names: Vec<&str> = found
        .packages
        .iter()
        .flat_map(|package| {
            let id = package.id.as_str();
            package.name.as_deref().into_iter().chain([id.strip_prefix("npm:").unwrap_or(id)])
        })
        .collect();
    // Users often leave out the scope.
    let scoped = names.iter().find(|name| name.starts_with('@') && name.ends_with(&format!("/{which}")));
    let scoped = scoped.map(|name| (*name).to_owned());
    let similar = scoped.or_else(|| similar_names(which, names, str::to_owned));
    let which = which.strip_prefix("path:").unwrap_or(which);
    let named = discovered(environment, vec![which.to_owned()]).map_err(|failure| match similar {
        Some(similar) => {
            failure.help(format!("did you mean {}? pi ext list names what would be loaded", clean(&similar)))
        }
        None => failure,
    })?;
    named
        .packages
        .first()
        .cloned()
        .ok_or_else(|| UserError::failed(format!("{which}: no such extension")).help("pi ext list names them"))
}

/// Returns the display name of a package: its manifest's name, and its source.
pub(crate) fn shown_name(package: &PackageEntry) -> String {
    match &package.name {
        Some(name) => format!("{} ({})", one_line(name, ""), package.id),
        None => package.id.to_string(),
    }
}

/// Returns the packages that a session would load here; empty if discovery fails.
pub(crate) fn loadable(environment: &Environment) -> Vec<PackageEntry> {
    let trusted = Trust::read(environment).is_ok_and(|trust| trust.covers(&environment.dirs.cwd));
    let options = DiscoverOptions { dirs: environment.dirs.clone(), named: Vec::new(), only_named: false, trusted };
    resolve_extensions(&options).packages
}

/// `pi ext show`: prints the requests of a package, and the findings of its scan.
pub(crate) fn show(environment: &Environment, which: &str, as_json: bool) -> Result<()> {
    let package = find_package(environment, which)?;
    let id = package.id.as_str();
    let output = Compiler::new(environment).build(id, &input_of(id, &package.root, &package.entries))?;
    let metadata = output.metadata();
    let limits = pijs_protocol::wire::Limits::default();
    if as_json {
        stdout(&json!({ "id": package.id, "root": package.root, "artifact": metadata, "limits": limits }).to_string());
        return Ok(());
    }
    stdout(&format!(
        "{} {} ({})",
        one_line(&metadata.name, ""),
        one_line(&metadata.version, ""),
        clean(package.id.as_str())
    ));
    for entry in &metadata.entries {
        stdout(&format!("  entry       {}", clean(entry)));
    }
    for request in &metadata.capabilities.capabilities {
        let scope = request.scope.as_ref().map(|scope| format!(" {}", json!(scope))).unwrap_or_default();
        stdout(&format!("  capability  {}{}", request.capability, clean(&scope)));
    }
    for (kind, known) in [("tool", &metadata.offers.tools), ("command", &metadata.offers.commands)] {
        for (name, about) in known {
            stdout(&format!("  {kind:<10}  {}", clean(&one_line(name, about))));
        }
    }
    stdout(&format!(
        "  limits      {} MiB heap, {} KiB stack, {} timers",
        limits.memory_bytes >> 20,
        limits.stack_bytes >> 10,
        limits.timers
    ));
    for finding in &metadata.findings {
        stdout(&clean(&format!(
            "  {:?} {}  {}:{}  {}",
            finding.class, finding.code, finding.file, finding.line, finding.message
        )));
    }
    Ok(())
}

fn discovered(environment: &Environment, named: Vec<String>) -> Result<Discovery> {
    let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    let mut found =
        resolve_extensions(&DiscoverOptions { dirs: environment.dirs.clone(), named, only_named: false, trusted });
    if let Some(problem) = found.refused.pop() {
        return Err(problem.into());
    }
    for problem in &found.problems {
        stderr(&clean(&format!("warning: {problem}")));
    }
    Ok(found)
}

/// Returns an installer that does not build packages, for listing and removing.
fn reader(environment: &Environment) -> Result<Installer> {
    let builder = |_: &BuildInput| -> pijs_packages::Result<BuildReport> { Ok(BuildReport::default()) };
    Ok(Installer::new(environment.dirs.clone(), environment.npm_config(None)?, Arc::new(builder))?)
}

fn scope(local: bool) -> InstallScope {
    if local { InstallScope::Project } else { InstallScope::User }
}

fn scope_name(scope: InstallScope) -> &'static str {
    match scope {
        InstallScope::User => "user",
        InstallScope::Project => "project",
    }
}

/// Shows progress: a progress bar on a terminal, and an occasional line in a pipe.
struct Bar(ProgressBar, Mutex<Option<SlowTask>>);

impl Bar {
    fn new(environment: &Environment) -> Self {
        if !environment.stderr_is_terminal {
            return Self(
                ProgressBar::hidden(),
                Mutex::new(Some(SlowTask::begin(&environment.notices, "checking the packages"))),
            );
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a constant template"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar, Mutex::default())
    }

    fn finish(&self) {
        self.0.finish_and_clear();
        drop(self.1.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn say(&self, what: &str) {
        if let Some(slow) = &*self.1.lock().unwrap_or_else(PoisonError::into_inner) {
            slow.set_task(what);
        }
    }

    /// Hides the bar while `work` writes to the terminal.
    fn suspend<R>(&self, work: impl FnOnce() -> R) -> R {
        self.0.suspend(work)
    }
}

impl InstallProgress for Bar {
    fn step(&self, what: &str) {
        self.0.set_message(clean(what));
        self.say(what);
    }

    fn done(&self, done: usize, total: usize) {
        let words = format!("{done} of {}", counted(total, "package"));
        self.0.set_message(words.clone());
        self.say(&words);
    }
}
