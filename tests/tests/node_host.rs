//! Tests the Node modules with the real connectors against the output of Node.
//!
//! Each `crates/node-compat/modules/tests/host/NAME.snippet.js` is an ES module that calls `log(..)`, which appends a line to
//! `output.txt` in the working folder; `NAME.expected` is Node's output (`npm run capture` there). This test loads the snippet as
//! an extension with grants for the project's files, programs and servers.

use pijs_connectors::Connectors;
use pijs_connectors::exec::ExecOptions;
use pijs_connectors::http::HttpOptions;
use pijs_connectors::http::address::SystemResolver;
use pijs_connectors::system::OsFileSystem;
use pijs_environment::SystemTimer;
use pijs_extc::{HostSource, compile_host_modules, host_modules};
use pijs_host::{ExtensionEntry, Host, Package};
use pijs_hostcall::{
    Dispatcher, Evidence, Gate, Grant, Ledger, LedgerOptions, LedgerSink, Mode, Places, Policy, Profile,
};
use pijs_protocol::manifest::Scope;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Nowhere;

impl LedgerSink for Nowhere {
    fn append(&self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/node-compat/modules/tests/host")
}

/// Returns the grants that every snippet has.
fn grants() -> Vec<Grant> {
    let paths = || Scope { paths: Some(vec!["<project>".into()]), ..Scope::default() };
    vec![
        Grant::scoped("read", "read", paths()),
        Grant::scoped("write", "write", paths()),
        Grant::any("exec", "exec"),
        Grant::any("http", "http"),
        // No server listens on this port.
        Grant::scoped(
            "refused",
            "http",
            Scope { hosts: Some(vec!["127.0.0.1:1".into(), "127.0.0.1:2".into()]), ..Scope::default() },
        ),
        Grant::any("timer", "timer"),
    ]
}

/// Runs one snippet and returns its log.
fn run(name: &str, source: &str) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().canonicalize().expect("it exists");
    let project = root.join("project");
    std::fs::create_dir_all(&project).expect("a folder");
    let source = [HostSource { specifier: name, source, path: "snippet.js" }];
    let artifact = compile_host_modules(&source, None).expect("the snippet compiles");
    let mut package = Package::new(Profile::new("path:snippet"), artifact);
    package.entries = vec![ExtensionEntry { module: name.into(), path: "snippet.js".into() }];

    let home = root.join("home");
    let places = Places::new(&project, &home, home.join(".pi/agent"), root.join("tmp"));
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let policy = Policy { mode: Mode::Strict, ..Policy::default() };
    let gate = Gate::builder(policy, places).environment(env.clone()).build();
    gate.set_grants(&package.profile, &grants(), Evidence::default()).expect("valid grants");
    let ledger = Ledger::new(LedgerOptions::default(), Arc::new(Nowhere));
    let timer = Arc::new(SystemTimer::new());
    let connectors = Connectors::new()
        .fs(Arc::new(OsFileSystem::new()))
        .exec(ExecOptions::new(env.clone()))
        .http(HttpOptions::default())
        .net(Arc::new(SystemResolver), Arc::new(|_| Vec::new()))
        .sqlite(Arc::new(OsFileSystem::new()))
        .env(env)
        .log(ledger.clone(), timer.clone());
    let dispatcher = Dispatcher::builder(gate, ledger, timer.clone()).connectors(connectors.into_methods()).build();
    let host = Host::builder(host_modules(None).expect("the host modules compile"), Arc::new(dispatcher), timer)
        .fact("cwd", project.display().to_string())
        .build();
    host.set_state("cwd", project.display().to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let report = runtime.block_on(host.run(host.load(package))).expect("it loads");
    let written = std::fs::read_to_string(project.join("output.txt")).unwrap_or_default();
    let failures: Vec<String> = report.failures().map(|failure| format!("{failure:?}")).collect();
    assert!(failures.is_empty(), "{failures:?}; so far it wrote:\n{written}");
    written
}

const HEAD: &str = "import { appendFileSync as append } from \"node:fs\"; import { format } from \"node:util\"; \
    const log = (...args) => append(\"output.txt\", `${format(...args)}\\n`);\n";

/// Compares line by line, so that a failure shows the first difference.
fn check(name: &str) {
    let read =
        |file: String| std::fs::read_to_string(folder().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let source = format!("{HEAD}{}\nexport default () => {{}};\n", read(format!("{name}.snippet.js")));
    let expected = read(format!("{name}.expected"));
    let actual = run(name, &source);
    for (number, (ours, node)) in actual.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, node, "line {} of {name} (left: PiJS, right: Node)\n{actual}", number + 1);
    }
    assert_eq!(
        actual.lines().count(),
        expected.lines().count(),
        "{name} wrote another number of lines than Node\n{actual}"
    );
}

macro_rules! snippets {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        /// Checks that a test names each snippet, since others would never run.
        #[test]
        fn every_snippet_is_listed() {
            let mut found: Vec<String> = std::fs::read_dir(folder()).expect("the folder of snippets").filter_map(|entry| {
                let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
                name.strip_suffix(".snippet.js").map(str::to_owned)
            }).collect();
            found.sort();
            assert_eq!(found, [$(stringify!($name)),*]);
        }
    };
}

snippets!(answers, databases, files, helpers, names, programs, servers, slow, uncaught, websocket);

/// A database cannot reach another file through any statement or link.
#[test]
fn a_database_stays_in_its_file() {
    let source = format!(
        r#"{HEAD}
        import {{ DatabaseSync }} from "node:sqlite";
        import {{ existsSync, symlinkSync }} from "node:fs";
        const attempt = (call) => {{ try {{ call(); log("done"); }} catch (error) {{ log(error.code, error.errcode, error.message); }} }};
        const db = new DatabaseSync("own.db");
        db.exec("CREATE TABLE t (x)");
        attempt(() => db.exec("ATTACH '../outside.db' AS other"));
        attempt(() => db.exec("VACUUM INTO '../outside.db'"));
        attempt(() => db.exec("PRAGMA temp_store_directory = '/tmp'"));
        attempt(() => db.prepare("SELECT load_extension('x')").get());
        attempt(() => db.exec("VACUUM"));
        attempt(() => new DatabaseSync("../outside.db"));
        attempt(() => new DatabaseSync("file:../outside.db?mode=rwc"));
        log(existsSync("../outside.db"), db.prepare("SELECT count(*) AS n FROM t").get().n);
        export default () => {{}};
        "#
    );
    let written = run("database", &source);
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), 8, "{written}");
    for (line, words) in lines.iter().zip(["23 ", "23 ", "23 ", "not authorized", "done"]) {
        assert!(line.contains(words), "{line}\n{written}");
    }
    assert!(lines[5].starts_with("ERR_SQLITE_ERROR 14"), "{written}");
    assert_eq!(lines[7], "false 0", "{written}");
}

/// Connections to private addresses need a grant that names them, and servers only listen on this machine.
#[test]
fn connections_reach_what_was_granted() {
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = stranger.local_addr().expect("an address").port();
    let source = format!(
        r#"{HEAD}
        import net from "node:net";
        import {{ once }} from "node:events";
        for (const target of [{{ port: {port}, host: "127.0.0.1" }}, {{ port: {port} }}, {{ port: 80, host: "169.254.169.254" }}, {{ path: "../other.sock" }}]) {{
            const [error] = await once(net.connect(target), "error");
            log(error.code, error.cause?.code);
        }}
        const server = net.createServer().listen({{ port: 0, host: "0.0.0.0" }});
        await once(server, "listening");
        log(server.address().address);
        server.close();
        const wide = net.createServer().listen(0, "192.0.2.1");
        const [error] = await once(wide, "error");
        log(error.code, error.cause?.code);
        export default () => {{}};
        "#
    );
    let written = run("connections", &source);
    let refused = "EACCES denied\n";
    assert_eq!(written, format!("{}127.0.0.1\n{refused}", refused.repeat(4)));
}
