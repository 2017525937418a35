//! The disposable world of one run of a case.
//!
//! ```text
//! WORLD/project/     working folder of pi                        @@project@@
//! WORLD/home/        HOME; pi's own folder is home/.pi/agent      @@home@@ @@agent@@
//! WORLD/tmp/         TMPDIR                                       @@tmp@@
//! WORLD/outside/     a folder that no run may access              @@outside@@
//! WORLD/extension/   the files of the case, and of `support`     @@extension@@
//! WORLD/cache/       artifacts; starts as a copy of a warm cache    @@cache@@
//! ```
//!
//! A canary is a value that must not leak: in the environment, in files outside, in pi's `auth.json`, on a loopback server.
//! `invariants.rs` searches all files that a run may have written.

use crate::Mode;
use crate::case::{self, Case};
use crate::server::Server;
use pijs_testkit::registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) case: Case,
    pub(crate) mode: Mode,
    pub(crate) registry: Registry,
    pub(crate) canaries: Canaries,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, Value>,
    servers: BTreeMap<String, Server>,
    transcript: String,
    runs: usize,
}

/// Values that must not leak.
pub(crate) struct Canaries {
    /// Value of the environment variable `ATTACK_CANARY`.
    pub(crate) env: String,
    /// Content of `outside/secret.txt` and `home/.ssh/id_ed25519`.
    pub(crate) file: String,
    /// A credential in pi's `auth.json`.
    pub(crate) auth: String,
    /// The response of the server `@@server.canary@@`, which no grant allows.
    pub(crate) server: String,
}

impl Canaries {
    fn new() -> Self {
        let one = |what: &str| {
            let random: [u8; 32] = std::array::from_fn(|_| uuid_byte());
            format!("canary-{what}-{}", hex::encode(random))
        };
        Self { env: one("env"), file: one("file"), auth: one("auth"), server: one("server") }
    }

    pub(crate) fn all(&self) -> [&str; 4] {
        [&self.env, &self.file, &self.auth, &self.server]
    }
}

/// Returns an unpredictable byte, from the random keys of a new hasher.
fn uuid_byte() -> u8 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish().to_le_bytes()[0]
}

impl World {
    /// Copies the files of the case and plants the canaries.
    pub(crate) fn new(folder: &Path, case: &Case, mode: &Mode) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("attack-").tempdir().map_err(|error| error.to_string())?;
        let world = Self {
            dir,
            case: case.clone(),
            mode: mode.clone(),
            registry: Registry::start(),
            canaries: Canaries::new(),
            state: Mutex::default(),
        };
        for (name, path) in world.places() {
            fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            world.set(name, &path.display().to_string());
        }
        world.set("world", &world.root().display().to_string());
        world.set("registry", &world.registry.url());
        for (name, value) in ["env", "file", "auth", "server"].into_iter().zip(world.canaries.all()) {
            world.set(&format!("canary.{name}"), value);
        }
        let canary = Server::speaking(&world.canaries.server);
        world.add_server("canary", canary);

        let file = &world.canaries.file;
        write(&world.root().join("outside/secret.txt"), file)?;
        write(&world.root().join("home/.ssh/id_ed25519"), file)?;
        let auth = serde_json::json!({ "anthropic": { "type": "api_key", "key": world.canaries.auth } });
        write(&world.root().join("home/.pi/agent/auth.json"), &auth.to_string())?;
        copy_tree(warm_cache()?, &world.root().join("cache"), &|bytes| bytes)?;

        copy_tree(&case::folder().join("support"), &world.root().join("extension"), &|bytes| bytes)?;
        let fill = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => world.fill(&text).into_bytes(),
            Err(binary) => binary.into_bytes(),
        };
        let borrowed = case.files_of.as_ref().map(|name| folder.with_file_name(name));
        for folder in borrowed.iter().map(PathBuf::as_path).chain([folder]) {
            for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let to = match name.as_str() {
                    "case.json" => continue,
                    "project" | "home" | "outside" if entry.path().is_dir() => world.root().join(&name),
                    _ => world.root().join("extension").join(&name),
                };
                copy_tree(&entry.path(), &to, &fill)?;
            }
        }
        Ok(world)
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    fn places(&self) -> [(&'static str, PathBuf); 7] {
        let at = |path: &str| self.root().join(path);
        [
            ("project", at("project")),
            ("home", at("home")),
            ("agent", at("home/.pi/agent")),
            ("tmp", at("tmp")),
            ("outside", at("outside")),
            ("extension", at("extension")),
            ("cache", at("cache")),
        ]
    }

    /// Resolves a path of a case, which is absolute or relative to the world.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Sets the text that replaces `@@name@@`.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.set_value(name, Value::from(value));
    }

    /// Sets a value other than text, which replaces a string that consists of `@@name@@` alone.
    pub(crate) fn set_value(&self, name: &str, value: Value) {
        self.state().names.insert(name.to_owned(), value);
    }

    pub(crate) fn add_server(&self, name: &str, server: Server) {
        let mut state = self.state();
        state.names.insert(format!("server.{name}"), server.url().into());
        state.names.insert(format!("port.{name}"), server.port().to_string().into());
        state.servers.insert(name.to_owned(), server);
    }

    /// Returns the requests to the server of this name.
    pub(crate) fn requests(&self, name: &str) -> Result<Vec<Value>, String> {
        let state = self.state();
        state.servers.get(name).map(Server::requests).ok_or_else(|| format!("no server is called {name}"))
    }

    /// Replaces each `@@name@@` with its value; unknown names stay.
    pub(crate) fn fill(&self, text: &str) -> String {
        if !text.contains("@@") {
            return text.to_owned();
        }
        let state = self.state();
        let mut filled = text.to_owned();
        for (name, value) in &state.names {
            if let Value::String(value) = value {
                filled = filled.replace(&format!("@@{name}@@"), value);
            }
        }
        filled
    }

    /// Returns the value of a string that consists of one name alone.
    fn whole(&self, text: &str) -> Option<Value> {
        let name = text.strip_prefix("@@")?.strip_suffix("@@")?;
        self.state().names.get(name).cloned()
    }

    /// Replaces names in every string of a value, including keys.
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match self.whole(text) {
                // A value may contain names itself.
                Some(Value::String(text)) => Value::String(self.fill(&text)),
                Some(value) => self.fill_value(&value),
                None => Value::String(self.fill(text)),
            },
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(members) => {
                Value::Object(members.iter().map(|(key, value)| (self.fill(key), self.fill_value(value))).collect())
            }
            other => other.clone(),
        }
    }

    /// Adds a text to the report of a failure.
    pub(crate) fn note(&self, text: &str) {
        let mut state = self.state();
        if state.transcript.len() < 64 << 10 {
            state.transcript.push_str(text);
            state.transcript.push('\n');
        }
    }

    pub(crate) fn transcript(&self) -> String {
        let text = self.state().transcript.clone();
        text.replace(&self.root().display().to_string(), "WORLD")
    }

    /// Returns a number that is unique among the runs of this world.
    pub(crate) fn next_run(&self) -> usize {
        let mut state = self.state();
        state.runs += 1;
        state.runs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().expect("below the world")).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

/// Copies a file or a folder; `change` maps the bytes of each file.
pub(crate) fn copy_tree(from: &Path, to: &Path, change: &dyn Fn(Vec<u8>) -> Vec<u8>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    let kind = fs::symlink_metadata(from).map_err(failed)?;
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from).map_err(failed)?, to).map_err(failed);
    }
    if !kind.is_dir() {
        fs::write(to, change(fs::read(from).map_err(failed)?)).map_err(failed)?;
        return fs::set_permissions(to, kind.permissions()).map_err(failed);
    }
    fs::create_dir_all(to).map_err(failed)?;
    fs::set_permissions(to, kind.permissions()).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)?.flatten() {
        copy_tree(&entry.path(), &to.join(entry.file_name()), change)?;
    }
    Ok(())
}

/// Returns a cache that contains pi's own modules, written by an honest run with every guard active.
fn warm_cache() -> Result<&'static Path, String> {
    static WARM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let warm = WARM.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attacks");
        let cache = home.join("cache");
        fs::create_dir_all(&cache).map_err(|error| error.to_string())?;
        let script = home.join("model.jsonl");
        write(&script, "{\"events\":[{\"text\":\"warm\"}],\"stop\":\"end_turn\"}\n")?;
        let extension = home.join("warm.ts");
        write(&extension, "export default () => {};\n")?;
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
            .args(["-p", "warm", "--no-session", "-e"])
            .arg(&extension)
            .args(["--model".to_owned(), format!("script:{}", script.display())])
            .current_dir(&home)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", &cache)
            .env("PIJS_WORDS", "own")
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("the cache cannot be warmed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(cache)
    });
    warm.as_deref().map_err(Clone::clone)
}
