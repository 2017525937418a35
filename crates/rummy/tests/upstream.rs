//! Runs upstream's tests in a realm: unit and integration tests of rummy 0.5.0, with upstream's SQL and this crate's SQL
//! functions.
//!
//! `RUMMY_UPSTREAM` is a checkout with the dependencies of its manifest installed; this repository contains none of it. Its files
//! run unchanged, apart from three substitutes: `node:test` is `upstream/node_test.js`, `@possumtech/sqlrite` (which no registry
//! has) is `upstream/sqlrite.js`, and the plugin scan, which imports files from disk, receives the compiled modules.
//! `upstream/failures.txt` lists the expected failures with reasons; the test fails if the run differs from it.

use pijs_dialect_rummy::register_functions;
use pijs_host::CallbackOutcome;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::{ErrorCode, HostcallError};
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{
    Environment, ExtensionConfig, Interface, Isolation, Notices, SessionBuilder, SessionChoice, SessionConfig,
    StoreConfig,
};
use rusqlite::Connection;
use rusqlite::types::{Value as SqlValue, ValueRef};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FAILURES: &str = include_str!("upstream/failures.txt");
/// Suffixes of files that upstream's code imports or reads.
const KEPT: &[&str] = &["js", "json", "md", "sql", "cjs", "mjs"];

/// Databases of the tests, with upstream's statements.
struct Databases {
    initial: String,
    statements: BTreeMap<String, String>,
    open: Mutex<Vec<Option<Connection>>>,
}

fn failed(error: impl std::fmt::Display) -> HostcallError {
    HostcallError::new(ErrorCode::InvalidRequest, error.to_string())
}

impl Databases {
    /// Reads the blocks `-- INIT: NAME` and `-- PREP: NAME` of all SQL files below two folders.
    fn read(checkout: &Path) -> Self {
        let mut files = Vec::new();
        for folder in ["migrations", "src"] {
            walk(&checkout.join(folder), &mut |path| {
                if path.extension().is_some_and(|ending| ending == "sql") {
                    files.push(path.to_owned());
                }
            });
        }
        let (mut initial, mut statements) = (String::new(), BTreeMap::<String, String>::new());
        for file in files {
            let text = fs::read_to_string(&file).expect("SQL is text");
            let mut block: Option<&str> = None;
            for line in text.lines() {
                match line.strip_prefix("-- ").and_then(|line| line.split_once(": ")) {
                    Some(("PREP", name)) => block = Some(name.trim()),
                    Some(("INIT", _)) => block = None,
                    _ => {
                        let sql = match block {
                            Some(name) => statements.entry(name.to_owned()).or_default(),
                            None => &mut initial,
                        };
                        let _ = writeln!(sql, "{line}");
                    }
                }
            }
        }
        // The parameter that the tests pass to `SqlRite.open`.
        let initial = initial.replace("$mmap_size", "0");
        Self { initial, statements, open: Mutex::default() }
    }

    fn entries(&self, method: &str, args: &Value) -> Result<Value, HostcallError> {
        let mut open = self.open.lock().expect("no test panics while it holds the databases");
        match method {
            "open" => {
                let connection = Connection::open_in_memory().map_err(failed)?;
                register_functions(&connection, 2).map_err(failed)?;
                connection.execute_batch("PRAGMA foreign_keys = ON").map_err(failed)?;
                connection.execute_batch(&self.initial).map_err(failed)?;
                open.push(Some(connection));
                let names: Vec<&String> = self.statements.keys().collect();
                Ok(json!({ "value": { "id": open.len() - 1, "names": names } }))
            }
            _ => {
                let id = args[0].as_u64().and_then(|id| usize::try_from(id).ok()).unwrap_or(usize::MAX);
                *open.get_mut(id).ok_or_else(|| failed("no such database"))? = None;
                Ok(json!({ "value": null }))
            }
        }
    }

    fn statement(&self, named: &str, op: &str, params: &Value) -> Result<Value, HostcallError> {
        let (id, name) = named.split_once(' ').unwrap_or_default();
        let open = self.open.lock().expect("no test panics while it holds the databases");
        let id: usize = id.parse().map_err(failed)?;
        let connection = open.get(id).and_then(Option::as_ref).ok_or_else(|| failed("the database is closed"))?;
        let sql = self.statements.get(name).ok_or_else(|| failed(format!("no statement {name}")))?;
        let mut statement = connection.prepare_cached(sql).map_err(failed)?;
        for at in 1..=statement.parameter_count() {
            let name = statement.parameter_name(at).unwrap_or_default().trim_start_matches([':', '$', '@']).to_owned();
            statement.raw_bind_parameter(at, sql_of(&params[&name])).map_err(failed)?;
        }
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            let mut object = Map::new();
            for (at, column) in columns.iter().enumerate() {
                object.insert(column.clone(), json_of(row.get_ref(at).map_err(failed)?));
            }
            found.push(Value::Object(object));
        }
        drop(rows);
        let value = match op {
            "all" => Value::Array(found),
            "get" => found.into_iter().next().unwrap_or(Value::Null),
            _ => json!({ "changes": connection.changes(), "lastInsertRowid": connection.last_insert_rowid() }),
        };
        Ok(json!({ "value": value }))
    }

    fn serve(&self, request: &Request) -> Result<Output, HostcallError> {
        let params = &request.params;
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let nothing = json!({});
        let part = |key: &str| params.get(key).unwrap_or(&nothing);
        match request.method.as_str() {
            "rummy.db" => self.statement(text("statement"), text("op"), part("params")),
            _ => self.entries(text("method"), part("args")),
        }
        .map(Output::new)
    }
}

fn sql_of(value: &Value) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Bool(is) => SqlValue::Integer(i64::from(*is)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => SqlValue::Integer(integer),
            (_, Some(real)) => SqlValue::Real(real),
            _ => SqlValue::Null,
        },
        Value::String(text) => SqlValue::Text(text.clone()),
        other => SqlValue::Text(other.to_string()),
    }
}

fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => json!(real),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
    }
}

struct Served(Arc<Databases>);

impl Connector for Served {
    fn call(&self, request: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let databases = Arc::clone(&self.0);
        Box::pin(async move { databases.serve(&request) })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        self.0.serve(request)
    }
}

/// Visits the files below a folder in sorted order, without hidden ones.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map_while(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        match path.is_dir() {
            _ if is_hidden => {}
            true => walk(&path, visit),
            false => visit(&path),
        }
    }
}

/// Copies the checkout with the substitutes into a package. Returns the test files.
fn stage(checkout: &Path, package: &Path) -> Vec<String> {
    let (mut tests, mut plugins) = (Vec::new(), Vec::new());
    for folder in ["src", "test/helpers", "test/integration", "lang", "node_modules", "migrations"] {
        walk(&checkout.join(folder), &mut |path| {
            let relative = path.strip_prefix(checkout).expect("below the checkout").to_string_lossy().into_owned();
            let ending = path.extension().unwrap_or_default();
            if !KEPT.iter().any(|kept| ending == *kept) {
                return;
            }
            let to = package.join(&relative);
            fs::create_dir_all(to.parent().expect("in the package")).expect("made");
            let Ok(text) = fs::read_to_string(path) else { return };
            let text = text.replace("from \"node:test\"", "from \"node-test\"");
            let text = match relative.as_str() {
                "src/plugins/index.js" => {
                    format!(
                        "import {{ imported }} from \"plugin-modules\";\n{}",
                        text.replace("import(url)", "imported(url)")
                    )
                }
                _ => text,
            };
            fs::write(to, text).expect("written");
            if relative.ends_with(".test.js") && !relative.starts_with("node_modules") {
                tests.push(relative);
            } else if relative.starts_with("src/plugins/") && relative.ends_with(".js") {
                plugins.push(relative);
            }
        });
    }
    let module = |name: &str, text: &str| {
        let folder = package.join("node_modules").join(name);
        fs::create_dir_all(&folder).expect("made");
        let manifest = json!({ "name": name, "version": "0.0.0", "type": "module", "main": "index.js" });
        fs::write(folder.join("package.json"), manifest.to_string()).expect("written");
        fs::write(folder.join("index.js"), text).expect("written");
    };
    module("node-test", include_str!("upstream/node_test.js"));
    module("@possumtech/sqlrite", include_str!("upstream/sqlrite.js"));
    let lookup = "export const imported = (url) => globalThis.pluginModules(url);\n";
    module("plugin-modules", lookup);
    let mut entry = String::from("import { runFile } from \"node-test\";\nconst plugins = {\n");
    for plugin in plugins.iter().filter(|plugin| *plugin != "src/plugins/index.js") {
        let _ = writeln!(entry, "  {plugin:?}: () => import(\"./{plugin}\"),");
    }
    entry.push_str("};\nglobalThis.pluginModules = (url) => plugins[url.slice(url.lastIndexOf(\"/src/plugins/\") + 1)]();\nconst files = {\n");
    for test in &tests {
        let _ = writeln!(entry, "  {test:?}: () => import(\"./{test}\"),");
    }
    entry.push_str(
        "};\nexport default (pi) => pi.registerCommand(\"upstream\", { description: \"Runs a file of tests.\", handler: ({ file }) => runFile(files[file]) });\n",
    );
    fs::write(package.join("index.js"), entry).expect("written");
    let manifest = json!({
        "name": "upstream", "version": "0.0.0", "private": true, "type": "module", "pi": { "extensions": ["./index.js"] },
    });
    fs::write(package.join("package.json"), manifest.to_string()).expect("written");
    tests
}

/// Reads the settings of upstream's `.env.example`.
fn settings(checkout: &Path) -> Map<String, Value> {
    let text = fs::read_to_string(checkout.join(".env.example")).unwrap_or_default();
    let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().into())).collect()
}

/// Runs a file of tests in a separate realm.
async fn run_file(
    environment: &Environment,
    package: &Path,
    databases: &Arc<Databases>,
    settings: Map<String, Value>,
    file: &str,
) -> Vec<Value> {
    let mut config = SessionConfig {
        extensions: ExtensionConfig {
            named: vec![package.display().to_string()],
            only_named: true,
            fail_on_error: true,
        },
        store: StoreConfig { choice: SessionChoice::InMemory, ..StoreConfig::default() },
        isolation: Isolation::Thread,
        ..SessionConfig::default()
    };
    config.permissions.allow = ["read", "write", "exec", "env"].map(str::to_owned).to_vec();
    let served: Arc<Served> = Arc::new(Served(Arc::clone(databases)));
    let session = SessionBuilder::new(environment)
        .config(config)
        .host_options(move |options| {
            if let Some(told) = options.facts.get_mut("env").and_then(Value::as_object_mut) {
                told.extend(settings);
            }
        })
        .interface(Interface::default())
        .connectors(move |connectors, _| {
            connectors.with("rummy.entries", Arc::clone(&served) as _).with("rummy.db", served as _)
        })
        .load()
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let host = session.host().clone();
    let command = host.commands().into_iter().find(|command| command.spec.name == "upstream").expect("it registered");
    let args = vec![json!({ "file": file })];
    let called = host.call_back(&command.owner.extension, command.owner.entry, command.spec.handle, args);
    let outcome = host.run(called).await;
    session.close();
    match outcome {
        CallbackOutcome::Returned(Some(Value::Array(results))) => results,
        other => vec![json!({ "name": "run", "skipped": false, "error": format!("{other:?}") })],
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "it tells why it was left out, and what passed")]
fn upstreams_tests_pass_in_our_realm() {
    let Some(checkout) = std::env::var_os("RUMMY_UPSTREAM").map(PathBuf::from) else {
        eprintln!("skipped: RUMMY_UPSTREAM names no checkout of rummy");
        return;
    };
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let package = environment.dirs.cwd.join("upstream");
    let files = stage(&checkout, &package);
    let databases = Arc::new(Databases::read(&checkout));
    let only = std::env::var("RUMMY_UPSTREAM_ONLY").unwrap_or_default();
    let (mut passed, mut failures) = (0, BTreeMap::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        for file in files.iter().filter(|file| file.contains(&only)) {
            let before = passed;
            let results = run_file(&environment, &package, &databases, settings(&checkout), file).await;
            let total = results.len();
            for result in results {
                match result["error"].as_str() {
                    None => passed += usize::from(result["skipped"] == false),
                    Some(error) => {
                        let name = format!("{file}: {}", result["name"].as_str().unwrap_or_default());
                        drop(failures.insert(name, error.to_owned()));
                    }
                }
            }
            eprintln!("{file}: {} of {total}", passed - before);
        }
    });
    for (name, error) in &failures {
        eprintln!("FAILED {name}\n    {error}");
    }
    eprintln!("{passed} passed, {} failed", failures.len());
    if !only.is_empty() {
        return;
    }
    let lines = FAILURES.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', ' ']));
    let known: Vec<&str> = lines.collect();
    let failing: Vec<&str> = failures.keys().map(String::as_str).collect();
    assert!(failing == known, "the failures differ from upstream/failures.txt: see the list above");
}
