//! Texts of the system prompt and of the built-in tools: pi's own, where its package is available.
//!
//! No sentence of pi is part of this program. Its package is one of those that the lock file pins; `collect.ts` runs pi's code
//! over it once, in a realm without grants, and its answer is stored beside the compiled units as data. Later starts read one
//! small file.
//!
//! ```text
//! PIJS_WORDS=own                                this program's own words
//! kept by an earlier start                      pi's
//! the unit is compiled, or can be fetched       pi's, and they are kept
//! PI_OFFLINE, no network, no cache              this program's own
//! no extension is loaded                        as with PI_OFFLINE: only extensions are worth a fetch
//! ```

use crate::builder::SessionBuilder;
use crate::compile::Compiler;
use crate::config::{Isolation, SessionChoice, SessionConfig, StoreConfig};
use crate::environment::Environment;
use crate::interface::Interface;
use crate::supply::Supplier;
use crate::throwaway::{NoLedger, surroundings};
use crate::user_error::{Result, UserError};
use pijs_agent::ports::NoUi;
use pijs_connectors::Connectors;
use pijs_durable::OwnTemporary;
use pijs_extc::{Cache, FileAccess, Input, Supply};
use pijs_host::{Package, ToolOutcome};
use pijs_hostcall::Profile;
use pijs_llm::provider::Model;
use pijs_tools::Builtin;
use pijs_tools::words::Words;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Variable that selects the texts of a start instead of looking for pi's.
const WHICH: &str = "PIJS_WORDS";
const OWN: &str = "own";

/// The provider of recorded replies.
const RECORDED: &str = "script";

/// pi's own variable that disables downloads.
const OFFLINE: &str = "PI_OFFLINE";

/// pi's own variable that names the folder of its documentation.
const PI_FOLDER: &str = "PI_PACKAGE_DIR";

const PI_PACKAGE: &str = "@earendil-works/pi-coding-agent";

/// Files of pi's package that a model may read.
const DOCUMENTATION: &[&str] = &["README.md", "CHANGELOG.md", "package.json", "docs", "examples"];

/// Maximum wait for a registry.
const FETCHED_WITHIN: Duration = Duration::from_secs(30);

/// Extension that collects pi's texts.
const COLLECT: &str = include_str!("pi_texts/collect.ts");

/// Name of the extension's tool, and id of its call.
const TOOL: &str = "words";

/// Returns the texts of a user's session, with the path of pi's documentation. `fetches` allows downloads.
pub async fn of_session(environment: &Environment, compiler: &Compiler, model: &Model, fetches: bool) -> Arc<Words> {
    let words = if model.provider == RECORDED { kept(environment, compiler) } else { None };
    let words = match words {
        Some(words) => words,
        None if model.provider == RECORDED => return Words::own(),
        None if fetches => of_start(environment, compiler).await,
        None => at_hand(environment, compiler).await,
    };
    if words.docs.is_empty() {
        return words;
    }
    let mut words = Words::clone(&words);
    words.pi_folder = documented(environment, compiler).await.map(|folder| folder.display().to_string());
    Arc::new(words)
}

/// Returns the texts of this start. An error falls back to this program's own.
pub async fn of_start(environment: &Environment, compiler: &Compiler) -> Arc<Words> {
    if let Some(words) = kept(environment, compiler) {
        return words;
    }
    // Without a cache every start would fetch and compile.
    let Some(cache) = compiler.cache() else { return Words::own() };
    if environment.stderr_is_terminal && !is_offline(environment) {
        environment.notices.show("preparing the prompt from pi's own package; this happens once");
    }
    match made(environment, compiler, &cache, is_offline(environment)).await {
        Ok(Some(words)) => Arc::new(words),
        Ok(None) => Words::own(),
        Err(failure) => {
            environment.notices.warn(format!("pi's own prompt is not available, so PiJS uses its own: {failure}"));
            Words::own()
        }
    }
}

/// Returns the texts that are available without a download.
async fn at_hand(environment: &Environment, compiler: &Compiler) -> Arc<Words> {
    if let Some(words) = kept(environment, compiler) {
        return words;
    }
    let Some(cache) = compiler.cache() else { return Words::own() };
    made(environment, compiler, &cache, true).await.ok().flatten().map_or_else(Words::own, Arc::new)
}

/// Prepares the texts for the first session, where that needs nothing but a registry. An error is reported by that session.
pub async fn prepare(environment: &Environment) {
    let compiler = Compiler::new(environment);
    if is_offline(environment) || kept(environment, &compiler).is_some() {
        return;
    }
    if let Some(cache) = compiler.cache() {
        let _ = made(environment, &compiler, &cache, false).await;
    }
}

/// Returns whether the user disabled downloads.
pub fn is_offline(environment: &Environment) -> bool {
    environment.variable(OFFLINE).is_some()
}

/// Returns the texts that are available at once: this program's own if requested, otherwise stored ones.
fn kept(environment: &Environment, compiler: &Compiler) -> Option<Arc<Words>> {
    if environment.variable(WHICH) == Some(OWN) {
        return Some(Words::own());
    }
    let kept = Supply::made(compiler.cache().as_ref(), COLLECT)?;
    Words::read(&kept).ok().map(Arc::new)
}

/// Runs pi's code and stores its texts; `None` when a necessary download is not allowed.
async fn made(
    environment: &Environment,
    compiler: &Compiler,
    cache: &Cache,
    is_offline: bool,
) -> Result<Option<Words>> {
    let answered = match collected(environment, compiler, is_offline).await {
        Err(_) if is_offline => return Ok(None),
        answered => answered?,
    };
    let written = answered.to_string();
    let words =
        Words::read(written.as_bytes()).map_err(|problem| UserError::failed(format!("pi's texts: {problem}")))?;
    // A failure to store them only means that the next start collects them again.
    let _ = Supply::keep_made(cache, COLLECT, written.as_bytes());
    Ok(Some(words))
}

/// Runs `collect.ts` in a realm without grants and returns its answer.
async fn collected(environment: &Environment, compiler: &Compiler, is_offline: bool) -> Result<Value> {
    let base = folder_beside_cache(environment, compiler.cache().as_ref())?;
    let file = base.path().join("collect.ts");
    std::fs::write(&file, COLLECT).map_err(|error| UserError::failed(format!("{}: {error}", file.display())))?;
    // The file belongs to this program, wherever its temporary folders are.
    let compiler = &compiler.with_access(FileAccess::default());
    let output = compiler.build("path:words", &Input::at(&file))?;
    let supplier = Supplier::new(environment, compiler.cache()).offline(is_offline);
    let supplied = tokio::time::timeout(FETCHED_WITHIN, supplier.for_extension(&output.metadata())).await;
    let supplied = supplied.map_err(|_| UserError::failed("the npm registry does not answer"))??;

    let surroundings = surroundings(environment, base.path())?;
    let config = SessionConfig {
        isolation: Isolation::Thread,
        store: StoreConfig { choice: SessionChoice::InMemory, ..StoreConfig::default() },
        ..SessionConfig::default()
    };
    let session = SessionBuilder::new(&surroundings)
        .config(config)
        .interface(Interface { ui: Some(Arc::new(NoUi)), ..Interface::default() })
        .build_with(compiler.clone(), supplier)
        .ledger(Arc::new(NoLedger))
        .without_discovery()
        .without_memory()
        // The session needs only the names of the prompt and of its tools.
        .connectors(|_, parts| {
            Connectors::new().log(parts.ledger, Arc::clone(&parts.timer)).timer(parts.timer).ui(Arc::new(NoUi))
        })
        .load()
        .await?;
    let host = session.host();

    let profile = Profile::new("path:words").at(base.path());
    let package = Package::new(profile, Arc::new(output.artifact)).with_supplied(supplied);
    let report = host.run(host.load(package)).await.map_err(|error| UserError::failed(error.to_string()))?;
    if let Some((_, error)) = report.failures().next() {
        return Err(UserError::failed(error.message.clone()));
    }
    let here: Vec<&str> = Builtin::ALL.iter().map(|tool| tool.name()).collect();
    match host.run(host.call_tool(TOOL, TOOL, json!({ "here": here }), None, |_| {})).await {
        ToolOutcome::Returned(mut result) => Ok(result["details"].take()),
        ToolOutcome::Threw(error) => Err(UserError::failed(error.message)),
        ToolOutcome::Unknown => Err(UserError::failed("the extension that collects pi's texts did not load")),
        ToolOutcome::Ended(end) => Err(UserError::failed(end.error().message)),
    }
}

/// Creates a folder for the program that is built and run here. Its result is stored and becomes part of every prompt, so neither
/// an extension nor a program of an extension may replace it.
fn folder_beside_cache(environment: &Environment, cache: Option<&Cache>) -> Result<OwnTemporary> {
    let beside = cache.and_then(|cache| cache.dir().parent()).unwrap_or(&environment.temp);
    std::fs::create_dir_all(beside)
        .and_then(|()| OwnTemporary::new_in(beside, "pijs-words"))
        .map_err(|error| UserError::failed(format!("cannot create a folder in {}: {error}", beside.display())))
}

/// Returns the folder of pi's documentation, unpacked from the package of the texts.
async fn documented(environment: &Environment, compiler: &Compiler) -> Option<PathBuf> {
    if let Some(named) = environment.variable(PI_FOLDER) {
        return Some(environment.dirs.cwd.join(named));
    }
    let folder = pi_folder(environment);
    if folder.join(DOCUMENTATION[0]).is_file() {
        return Some(folder);
    }
    let supplier = Supplier::new(environment, compiler.cache()).offline(true);
    let unpacked = supplier.unpack_some(PI_PACKAGE, DOCUMENTATION, &folder).await;
    // If unpacking failed, the prompt does not mention the documentation.
    unpacked.ok().map(|()| folder)
}

/// Returns the folder in which extensions look for pi's own files.
pub fn pi_folder(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join("pi")
}
