//! Reads `settings.json` for the command line: one object, each key by itself.

use crate::environment::Environment;
use crate::trust::Trust;
use serde_json::{Map, Value};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum size of a file of settings in bytes.
const LARGEST: u64 = 4 << 20;

/// Merges the user's settings with those of a trusted folder. Errors of a file were reported when the policy was read.
pub fn merged(environment: &Environment) -> Map<String, Value> {
    let mut all = of_user(environment);
    all.extend(of_project(environment));
    all
}

/// Returns the effective settings files: the user's, then that of a trusted folder.
pub fn by_file(environment: &Environment) -> [(PathBuf, Map<String, Value>); 2] {
    let user = environment.dirs.agent_dir.join("settings.json");
    let project = environment.dirs.cwd.join(".pi/settings.json");
    [(user, of_user(environment)), (project, of_project(environment))]
}

/// Returns the folder of sessions in the settings. A project's settings can only choose a folder inside the project, however
/// trusted it is: sessions contain the user's messages.
pub fn session_dir(environment: &Environment) -> Option<String> {
    let said = |settings: Map<String, Value>| settings.get("sessionDir")?.as_str().map(str::to_owned);
    let stays = |folder: &String| {
        Path::new(folder).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            && !folder.starts_with('~')
    };
    said(of_project(environment)).filter(stays).or_else(|| said(of_user(environment)))
}

/// Returns pi's `httpProxy`, used where no variable names a proxy. A project cannot set one, however trusted it is: keys pass
/// through it.
pub fn proxy(environment: &Environment) -> Option<String> {
    of_user(environment).get("httpProxy")?.as_str().map(str::to_owned)
}

fn of_user(environment: &Environment) -> Map<String, Value> {
    read(&environment.dirs.agent_dir.join("settings.json"))
}

fn of_project(environment: &Environment) -> Map<String, Value> {
    let cwd = &environment.dirs.cwd;
    let is_trusted = Trust::read(environment).is_ok_and(|trust| trust.covers(cwd));
    if is_trusted { read(&cwd.join(".pi/settings.json")) } else { Map::new() }
}

fn read(path: &Path) -> Map<String, Value> {
    let text = read_text(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Reads a file of settings. A pipe or a device in its place is an error and not waited for.
///
/// # Errors
///
/// Returns the error of the system, or `InvalidData` for a file that is not text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = pijs_durable::read_regular(path, LARGEST)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
