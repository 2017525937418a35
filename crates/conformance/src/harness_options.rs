//! Options and entry paths that `pi ext snapshot` and `pi ext drive` share. `oracle/format.md` specifies the forms of ENTRY.

use crate::normalise::Normaliser;
use clap::Args;
use pijs_host::PiProfile;
use pijs_hostcall::spilled::SpilledResults;
use pijs_runtime::Environment;
use pijs_runtime::Isolation;
use pijs_runtime::{Result, UserError};
use std::path::{Path, PathBuf};

/// Options of the comparison with the real pi.
#[derive(Debug, Args)]
pub struct ComparedArgs {
    /// Folder of example:NAME
    #[arg(long, value_name = "DIR")]
    pub examples: Option<PathBuf>,
    /// Folder of npm:NAME@VERSION
    #[arg(long, value_name = "DIR")]
    pub packages: Option<PathBuf>,
    /// Run extensions in a process or a thread
    #[arg(long, value_name = "PLACE", default_value_t)]
    pub isolation: Isolation,
    /// pi's version that extensions see: 0.87 or 0.73
    #[arg(long, value_name = "VERSION", default_value_t)]
    pub profile: PiProfile,
}

/// The folders of examples and packages.
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

    /// Returns the file or folder that an ENTRY names.
    pub(crate) fn resolve(&self, entry: &str) -> Result<PathBuf> {
        if let Some(name) = entry.strip_prefix("example:") {
            let folder = self.examples.as_ref().ok_or_else(|| needs(entry, "--examples DIR"))?;
            let candidates = [folder.join(format!("{name}.ts")), folder.join(name)];
            return candidates.into_iter().find(|path| path.exists()).ok_or_else(|| {
                UserError::failed(format!("{entry}: there is no such example below {}", folder.display()))
            });
        }
        if let Some(spec) = entry.strip_prefix("npm:") {
            let folder = self.packages.as_ref().ok_or_else(|| needs(entry, "--packages DIR"))?;
            let malformed =
                || UserError::usage(format!("{entry}: no package spec")).help("write npm:NAME@VERSION[/FILE]");
            let start = usize::from(spec.starts_with('@'));
            let at = start + spec[start..].find('@').ok_or_else(malformed)?;
            let (name, rest) = (&spec[..at], &spec[at + 1..]);
            let (version, file) = rest.split_once('/').map_or((rest, None), |(version, file)| (version, Some(file)));
            let place = folder.join(format!("{}@{version}", name.replace('/', "+"))).join("node_modules").join(name);
            if !place.is_dir() {
                return Err(UserError::failed(format!("{entry}: there is no {}", place.display())));
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
        // Long outputs are stored in a dedicated folder, and in pi among the temporary files.
        let results = SpilledResults::of(&dirs.agent_dir);
        let normaliser = normaliser.place(results.folder(), "<tmp>");
        normaliser.place(&dirs.cwd, "<cwd>").place(&dirs.home, "<home>").place(&surroundings.temp, "<tmp>")
    }
}

fn needs(entry: &str, option: &str) -> UserError {
    UserError::usage(format!("{entry}: {option} is missing"))
}
