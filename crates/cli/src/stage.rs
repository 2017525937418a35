//! What `pi ext snapshot` and `pi ext drive` have in common: a throw-away project and home, an emptied
//! environment, and the places that ENTRYs name. `oracle/format.md` says how each looks.

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::normalise::Normaliser;
use pijs_hostcall::LedgerSink;
use pijs_packages::{Dirs, PackageEntry};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where examples and packages are.
pub(crate) struct Roots {
    cwd: PathBuf,
    examples: Option<PathBuf>,
    packages: Option<PathBuf>,
    root: Option<PathBuf>,
}

impl Roots {
    pub(crate) fn new(
        cwd: &Path,
        examples: Option<&PathBuf>,
        packages: Option<&PathBuf>,
        root: Option<&PathBuf>,
    ) -> Self {
        let real = |path: &PathBuf| cwd.join(path).canonicalize().unwrap_or_else(|_| cwd.join(path));
        Self { cwd: cwd.to_owned(), examples: examples.map(real), packages: packages.map(real), root: root.map(real) }
    }

    /// The file or folder that an ENTRY names.
    pub(crate) fn resolve(&self, entry: &str) -> Result<PathBuf> {
        if let Some(name) = entry.strip_prefix("example:") {
            let folder = self.examples.as_ref().ok_or_else(|| needs(entry, "--examples DIR"))?;
            let candidates = [folder.join(format!("{name}.ts")), folder.join(name)];
            return candidates.into_iter().find(|path| path.exists()).ok_or_else(|| {
                Failure::failed(format!("{entry}: there is no such example below {}", folder.display()))
            });
        }
        if let Some(spec) = entry.strip_prefix("npm:") {
            let folder = self.packages.as_ref().ok_or_else(|| needs(entry, "--packages DIR"))?;
            let malformed =
                || Failure::usage(format!("{entry}: no package spec")).help("write npm:NAME@VERSION[/FILE]");
            let start = usize::from(spec.starts_with('@'));
            let at = start + spec[start..].find('@').ok_or_else(malformed)?;
            let (name, rest) = (&spec[..at], &spec[at + 1..]);
            let (version, file) = rest.split_once('/').map_or((rest, None), |(version, file)| (version, Some(file)));
            let place = folder.join(format!("{}@{version}", name.replace('/', "+"))).join("node_modules").join(name);
            if !place.is_dir() {
                return Err(Failure::failed(format!("{entry}: there is no {}", place.display())));
            }
            return Ok(file.map_or_else(|| place.clone(), |file| place.join(file)));
        }
        Ok(self.cwd.join(entry))
    }

    pub(crate) fn normaliser(&self, surroundings: &Environment) -> Normaliser {
        let dirs = &surroundings.dirs;
        let mut normaliser = Normaliser::default();
        if let Some(root) = &self.root {
            normaliser = normaliser.relative_to(root);
        }
        let optional = [(&self.examples, "<examples>"), (&self.packages, "<packages>")];
        for (path, name) in optional.into_iter().filter_map(|(path, name)| Some((path.as_ref()?, name))) {
            normaliser = normaliser.place(path, name);
        }
        normaliser.place(&dirs.cwd, "<cwd>").place(&dirs.home, "<home>").place(&surroundings.temp, "<tmp>")
    }
}

fn needs(entry: &str, option: &str) -> Failure {
    Failure::usage(format!("{entry}: {option} is missing"))
}

/// A fresh project and home below `base`, and the variables that every document is made with.
pub(crate) fn surroundings(environment: &Environment, base: &Path) -> Result<Environment> {
    let made = |error: std::io::Error| Failure::failed(format!("{}: {error}", base.display()));
    let base = base.canonicalize().map_err(made)?;
    let folder = |name: &str| {
        let path = base.join(name);
        std::fs::create_dir_all(&path).map(|()| path).map_err(made)
    };
    let (cwd, home, temp, agent_dir) = (folder("cwd")?, folder("home")?, folder("tmp")?, folder("home/.pi/agent")?);
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    if let Some(path) = environment.variable("PATH") {
        set("PATH", path.to_owned());
    }
    set("HOME", home.display().to_string());
    set("TMPDIR", temp.display().to_string());
    set("PI_CODING_AGENT_DIR", agent_dir.display().to_string());
    for (name, value) in [("TZ", "UTC"), ("LANG", "C.UTF-8"), ("PI_OFFLINE", "1")] {
        set(name, value.to_owned());
    }
    Ok(Environment {
        dirs: Dirs { agent_dir, cwd, home },
        temp,
        variables,
        stderr_is_terminal: false,
        stdin_is_terminal: false,
        stdout_is_terminal: false,
        trusts: None,
        session_dir: None,
        session: None,
    })
}

/// The paths under which pi shows the entries: a folder that is one module is shown as it was named.
pub(crate) fn shown_entries(found: &PackageEntry) -> Vec<String> {
    match found.entries.as_slice() {
        [_] if found.is_module => vec![found.root.display().to_string()],
        entries => entries.iter().map(|entry| entry.display().to_string()).collect(),
    }
}

/// What is loaded for a look at its registrations leaves no record.
pub(crate) struct NoLedger;

impl LedgerSink for NoLedger {
    fn append(&self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}
