//! `pi ext snapshot`: prints the registrations of extensions in the form of `oracle/format.md`.
//!
//! The real pi prints a document of the same form for the same extension; the conformance harness compares the two. Extensions
//! are loaded as by `pi -e ENTRY --no-extensions`, in a sealed realm, with an empty environment and without a session. They may
//! read and write files in a throw-away home and project and run programs; nothing else is granted.

use crate::harness_options::{ComparedArgs, Roots};
use clap::Args;
use pijs_agent::ports::NoUi;
use pijs_host::{Host, ReportKind};
use pijs_hostcall::Grant;
use pijs_packages::{DiscoverOptions, resolve_extensions};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::manifest::Scope;
use pijs_protocol::registration::{Registration, ToolSpec};
use pijs_runtime::compile::Compiler;
use pijs_runtime::compiled_package::{CompiledPackage, shown_entries};
use pijs_runtime::supply::Supplier;
use pijs_runtime::throwaway::{NoLedger, surroundings};
use pijs_runtime::{
    Environment, Interface, Result, SessionBuilder, SessionChoice, SessionConfig, StoreConfig, UserError,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// `pi ext snapshot`
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// Paths, example:NAME or npm:NAME@VERSION[/FILE], in load order
    #[arg(required = true, value_name = "ENTRY")]
    pub entries: Vec<String>,
    /// Paths below it are printed relative to it
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Options that `pi ext drive` shares.
    #[command(flatten)]
    pub compared: ComparedArgs,
}

/// Loads the entries and returns their registrations as JSON text.
///
/// # Errors
///
/// Fails if an entry does not exist. Load errors are part of the document.
pub async fn take(environment: &Environment, args: &SnapshotArgs) -> Result<String> {
    let (examples, packages) = (args.compared.examples.as_ref(), args.compared.packages.as_ref());
    let places = Roots::new(&environment.dirs.cwd, examples, packages, args.root.as_ref());
    let named = args.entries.iter().map(|entry| places.resolve(entry)).collect::<Result<Vec<_>>>()?;
    let base =
        tempfile::Builder::new().prefix("snap-").rand_bytes(6).tempdir_in(&environment.temp).map_err(|error| {
            UserError::failed(format!("cannot create a folder in {}: {error}", environment.temp.display()))
        })?;
    let surroundings = surroundings(environment, base.path())?;
    let document = load(environment, &surroundings, named, args).await?;
    let mut normaliser = places.normaliser(&surroundings);
    Ok(serde_json::to_string_pretty(&normaliser.document(document)).expect("a JSON value serializes"))
}

/// Loads the entries and records their registrations.
async fn load(
    environment: &Environment,
    surroundings: &Environment,
    named: Vec<PathBuf>,
    args: &SnapshotArgs,
) -> Result<Value> {
    let compiler = Compiler::new(environment);
    let supplier = Supplier::new(environment, compiler.cache());
    let config = SessionConfig {
        isolation: args.compared.isolation,
        profile: Some(args.compared.profile),
        store: StoreConfig { choice: SessionChoice::InMemory, ..StoreConfig::default() },
        ..SessionConfig::default()
    };
    let session = SessionBuilder::new(surroundings)
        .config(config)
        .interface(Interface { ui: Some(Arc::new(NoUi)), ..Interface::default() })
        .build_with(compiler, supplier)
        .ledger(Arc::new(NoLedger))
        .without_discovery()
        .without_memory()
        .load()
        .await?;
    let host = session.host();
    let reports = host.reports();
    let mut errors: Vec<(String, String)> = Vec::new();
    let mut failed: BTreeSet<String> = BTreeSet::new();
    for path in &named {
        let found = resolve_extensions(&DiscoverOptions {
            dirs: surroundings.dirs.clone(),
            named: vec![path.display().to_string()],
            only_named: true,
            trusted: false,
        });
        errors.extend(found.refused.iter().map(|problem| (path.display().to_string(), problem.message.clone())));
        for found in &found.packages {
            let loaded = async {
                let built =
                    CompiledPackage::new(session.compiler(), session.dispatcher(), found)?.shown_as_named(found);
                let granted = grants(&built.metadata);
                built.load_granted(&session, &granted).await
            };
            match host.run(loaded).await {
                Ok(failures) => {
                    failed.extend(failures.iter().map(|(path, _)| path.clone()));
                    errors.extend(failures);
                }
                Err(failure) => {
                    let message = failure.to_string();
                    errors.extend(shown_entries(found).into_iter().map(|path| (path, message.clone())));
                }
            }
        }
    }
    for report in reports.drain() {
        if let ReportKind::Conflict { message } = report.kind {
            errors.push((report.path, message));
        }
    }
    Ok(document(host, &failed, errors))
}

/// Returns all capabilities that a package requests, as for a file named on the command line, and access to the folders of this
/// run.
fn grants(metadata: &ArtifactMetadata) -> Vec<Grant> {
    let capabilities: Vec<_> =
        metadata.capabilities.capabilities.iter().map(|found| found.capability.clone()).collect();
    let inside = ["<project>", "<package>", "<pi>", "<temp>", "~/**", "~/.*", "~/.*/**"].map(str::to_owned).to_vec();
    let inside = Scope { paths: Some(inside), ..Scope::default() };
    let mut grants = Grant::for_named_file(&capabilities);
    grants.extend(["read", "write"].map(|capability| Grant::scoped("snapshot", capability, inside.clone())));
    grants.extend(["exec", "env", "eval"].map(|capability| Grant::any("snapshot", capability)));
    grants
}

fn document(host: &Host, failed: &BTreeSet<String>, errors: Vec<(String, String)>) -> Value {
    let registrations: Vec<_> =
        host.registrations().into_iter().filter(|(owner, _)| !failed.contains(&owner.path)).collect();
    let providers: Vec<Value> = registrations
        .iter()
        .flat_map(|(owner, all)| all.iter().map(move |one| (owner, one)))
        .filter_map(|(owner, one)| match one {
            Registration::Provider { name, config, .. } => {
                Some(json!({"name": name, "extension": owner.path, "config": plain(config)}))
            }
            _ => None,
        })
        .collect();
    let flag_values: Map<String, Value> =
        host.flags().into_iter().filter_map(|flag| Some((flag.spec.name, flag.value?))).collect();
    let errors: Vec<Value> = errors
        .iter()
        .map(|(path, error)| json!({"path": path, "error": error.lines().next().unwrap_or_default()}))
        .collect();
    json!({
        "format": "pi-ext-snapshot/1",
        "pi": host.profile().version(),
        "extensions": registrations.iter().map(|(owner, all)| extension(&owner.path, all)).collect::<Vec<_>>(),
        "providers": providers,
        "flagValues": flag_values,
        "errors": errors,
    })
}

fn extension(path: &str, registrations: &[Registration]) -> Value {
    let mut tools = Vec::new();
    let mut commands = Vec::new();
    let mut shortcuts = Vec::new();
    let mut flags = Vec::new();
    let mut handlers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut transforms_markdown = false;
    let mut message_renderers = Vec::new();
    let mut entry_renderers = Vec::new();
    for registration in registrations {
        match registration {
            Registration::Tool(spec) => tools.push(tool(spec)),
            Registration::Command(spec) => commands.push(present(json!({
                "name": spec.name, "description": spec.description, "completions": spec.completions.is_some(),
            }))),
            Registration::Shortcut { key, description, .. } => {
                shortcuts.push(present(json!({"key": key, "description": description})));
            }
            Registration::Flag(spec) => flags.push(present(json!({
                "name": spec.name, "type": spec.flag_type, "default": spec.default, "description": spec.description,
            }))),
            Registration::Handler(spec) => *handlers.entry(&spec.event).or_default() += 1,
            Registration::MessageRenderer { custom_type, .. } => message_renderers.push(custom_type),
            Registration::EntryRenderer { custom_type, .. } => entry_renderers.push(custom_type),
            Registration::MarkdownTransformer { .. } => transforms_markdown = true,
            // pi 0.87.1 does not support MCP servers.
            Registration::Provider { .. }
            | Registration::McpServer { .. }
            | Registration::McpServerRemoved { .. }
            | Registration::HandlerRemoved { .. }
            | Registration::ProviderRemoved { .. } => {}
        }
    }
    json!({
        "path": path, "tools": tools, "commands": commands, "shortcuts": shortcuts, "flags": flags,
        "handlers": handlers, "messageRenderers": message_renderers, "entryRenderers": entry_renderers,
        "markdownTransformer": transforms_markdown,
    })
}

fn tool(spec: &ToolSpec) -> Value {
    let functions: BTreeSet<&str> = spec.functions.iter().map(|function| function.name.as_str()).collect();
    present(json!({
        "name": spec.name, "label": spec.label, "description": spec.description, "parameters": spec.parameters,
        "promptSnippet": spec.prompt_snippet, "promptGuidelines": spec.prompt_guidelines,
        "executionMode": spec.execution_mode, "renderShell": spec.render_shell,
        "functions": functions, "otherKeys": spec.other_keys,
    }))
}

/// Returns an object without the members that are not set.
fn present(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// Returns a value in the form of `format.md`: functions, which arrive as handles, have no identity.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) if members.len() == 1 && members.contains_key("$handle") => "<function>".into(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}
