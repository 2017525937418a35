//! Captures the process environment once: folders, variables, terminal.

use crate::notices::Notices;
use crate::user_error::{Result, UserError, is_missing};
use pijs_connectors::exec::STARTED_WITH;
use pijs_durable::CheckedFiles;
use pijs_hostcall::places::{Places, normal};
use pijs_packages::{Dirs, NpmConfig, PackageSource};
use pijs_protocol::guard;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// Environment of one run. No other code reads the process environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The working folder, the home and pi's own folder; canonical.
    pub dirs: Dirs,
    /// The folder of temporary files; canonical.
    pub temp: PathBuf,
    /// Variables that are valid text.
    pub variables: BTreeMap<String, String>,
    /// Whether stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// Whether stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// Whether stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether the command line trusts the working folder; `None` without such an option.
    pub trusts: Option<bool>,
    /// Takes warnings and notes for the user.
    pub notices: Notices,
    /// Folder of sessions that the command line names.
    pub session_dir: Option<String>,
    /// Session that the command line names: a file, or an id.
    pub session: Option<String>,
    /// Folders of the user who inspects an extension in a throwaway project and home. Programs cannot access the keys and the state
    /// of PiJS there.
    pub inspected_by: Option<Places>,
    /// Files that were checked when an extension with limited use of `pi` started this one; `None` if none did.
    pub started_with: Option<CheckedFiles>,
    /// File that this session is recorded to; protected from extensions.
    pub tape: Option<PathBuf>,
    /// File that this run is logged to; protected from extensions.
    pub log: Option<PathBuf>,
}

/// Returns columns and rows of the terminal at stdout; `None` when stdout is not a terminal or the size is unknown.
pub fn terminal_size() -> Option<(usize, usize)> {
    let known = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let known = known.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    known.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Appends the folder of this `pi` to the path if no other contains one, for programs and extensions that start `pi`.
fn add_own_folder(path: &mut String, program: &Path) {
    let (Some(folder), true) = (program.parent().and_then(Path::to_str), program.file_name() == Some("pi".as_ref()))
    else {
        return;
    };
    // An empty entry of a path means the working folder.
    if !path.is_empty() && !std::env::split_paths(path).any(|folder| folder.join("pi").is_file()) {
        path.extend([":", folder]);
    }
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    ///
    /// Fails if the working folder is gone, or if `HOME` is not an absolute path.
    pub fn capture() -> Result<Self> {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let mut variables: BTreeMap<String, String> = std::env::vars_os().filter_map(text).collect();
        if let (Some(path), Ok(program)) = (variables.get_mut("PATH"), std::env::current_exe()) {
            add_own_folder(path, &program);
        }
        let cwd = std::env::current_dir()
            .and_then(|cwd| cwd.canonicalize())
            .map_err(|error| UserError::failed(format!("the working folder cannot be used: {error}")))?;
        let home =
            variables.get("HOME").filter(|home| Path::new(home).is_absolute()).map(PathBuf::from).ok_or_else(|| {
                UserError::failed("HOME is not set to an absolute path").help("set HOME to your home folder")
            })?;
        let agent_dir = match variables.get("PI_CODING_AGENT_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => match dir.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => cwd.join(dir),
            },
            None => home.join(".pi/agent"),
        };
        let canonical = |path: PathBuf| normal(Path::new("/"), &pijs_durable::without_links(&path));
        // Programs that this `pi` starts do not inherit it.
        let started_with = variables.remove(STARTED_WITH).map(|text| CheckedFiles::parse(&text));
        let temp = canonical(variables.get("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from));
        Ok(Self {
            dirs: Dirs { agent_dir: canonical(agent_dir), cwd, home: canonical(home) },
            temp,
            variables,
            stderr_is_terminal: std::io::stderr().is_terminal(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            trusts: None,
            session_dir: None,
            session: None,
            tape: None,
            log: None,
            inspected_by: None,
            started_with,
            notices: Notices::to_stderr(),
        })
    }

    /// Resolves a path of the user: relative to the home after `~`, else to the working folder.
    pub fn path(&self, given: &str) -> PathBuf {
        match given.strip_prefix('~') {
            Some("") => self.dirs.home.clone(),
            Some(rest) if rest.starts_with('/') => self.dirs.home.join(rest.trim_start_matches('/')),
            _ => self.dirs.cwd.join(given),
        }
    }

    /// Opens a file that the command line names.
    ///
    /// # Errors
    ///
    /// Returns the error of the system; `PermissionDenied` if an extension started this `pi`, and the file is another than the
    /// one that was checked.
    pub fn open_named(&self, path: &Path) -> io::Result<File> {
        self.started_with.as_ref().map_or_else(|| File::open(path), |checked| checked.open(path))
    }

    /// Returns the extensions that the command line names. If an extension started this `pi`, files and folders are returned by
    /// their paths without links, so that a link is not exchanged before they are built.
    ///
    /// # Errors
    ///
    /// Fails if an extension started this `pi`, and a file or folder cannot be opened, or is not one of those that were checked.
    pub(crate) fn checked_extensions(&self, named: Vec<String>) -> Result<Vec<String>> {
        let Some(checked) = self.started_with.as_ref().filter(|_| guard!(LoadChecked)) else { return Ok(named) };
        let checked = |text: String| match PackageSource::from_settings(&text, &self.dirs.cwd, &self.dirs.home) {
            Ok(PackageSource::Path(path)) => match checked.real_path(&path) {
                Ok(real) => Ok(real.to_string_lossy().into_owned()),
                Err(error) => Err(UserError::failed(format!("the extension {text} cannot be loaded: {error}"))),
            },
            _ => Ok(text),
        };
        named.into_iter().map(checked).collect()
    }

    /// Returns a variable if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns registries, tokens and proxies: the user's `.npmrc`, then `--registry` and the variables about proxies. The
    /// project's own file is not read.
    pub fn npm_config(&self, registry: Option<&str>) -> Result<NpmConfig> {
        let path = self.variable("NPM_CONFIG_USERCONFIG").map_or_else(|| self.dirs.home.join(".npmrc"), PathBuf::from);
        let config = match crate::settings::read_text(&path) {
            Ok(text) => NpmConfig::parse(&text, &|name| self.variable(name).map(str::to_owned))?,
            Err(error) if is_missing(&error) => NpmConfig::default(),
            Err(error) => return Err(UserError::failed(format!("{} cannot be read: {error}", path.display()))),
        };
        let config = crate::proxies::for_registries(config, |name| crate::proxies::variable(self, name));
        Ok(match registry {
            Some(url) => config.with_registry(url)?,
            None => config,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_folder_is_appended_if_the_path_has_no_pi() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path().to_str().expect("text").to_owned();
        let with = |program: &str| {
            let mut path = here.clone();
            add_own_folder(&mut path, Path::new(program));
            path
        };
        assert_eq!(with("/own/pi"), format!("{here}:/own"));
        assert_eq!(with("/own/else"), here);
        std::fs::write(folder.path().join("pi"), "").expect("written");
        assert_eq!(with("/own/pi"), here);
    }
}
