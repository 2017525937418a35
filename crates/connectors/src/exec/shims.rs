//! Refuses a shim that would run a program which the project names.
//!
//! Managers of versions (asdf, mise, proto, volta) put shims into the search path: programs that read version files of the working
//! folder and of the folders above it, and run what these files name. A version selects one of the programs that the user
//! installed. A path, a package or a setting in such a file, however, selects the project's own program: `jq path:./evil`. A grant
//! of `jq` does not cover it. The user's own files, in the home and above, are trusted.

use super::program::Program;
use pijs_durable::read_regular;
use pijs_hostcall::{Permit, Reason};
use pijs_programs::name_of;
use pijs_programs::version_files::{self, VersionSyntax};
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Programs to which shims are links.
const MANAGERS: &[&str] = &["asdf", "mise", "proto", "proto-shim", "rtx", "volta", "volta-shim"];

/// Texts of shims that are scripts.
const CALLS: &[&str] = &["asdf exec", "mise exec", "mise x ", "proto run", "rtx exec", "rtx x ", "volta run"];

/// Programs that volta runs only from its own folders. It runs all others from the project's dependencies, if they are there.
const ONLY_OF_VOLTA: &[&str] = &["node", "npm", "npx", "pnpm", "yarn"];

/// Folders with settings of mise, relative to a folder.
const SETTINGS_FOLDERS: &[&str] =
    &["mise", ".mise", ".mise/conf.d", ".rtx", ".config/mise", ".config/mise/conf.d", ".config/rtx"];

/// Variables that give the version files other names.
const NAMES: &[(&str, VersionSyntax)] = &[
    ("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME", VersionSyntax::Tools),
    ("MISE_DEFAULT_CONFIG_FILENAME", VersionSyntax::Settings),
    ("MISE_DEFAULT_TOOL_VERSIONS_FILENAME", VersionSyntax::Tools),
];

/// Maximum size of a shim that is a script, and of a version file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Refuses a shim in a folder where a file of the project names the program to run, unless every use of the command was granted.
pub(super) fn check(
    program: &Program,
    permit: &Permit,
    (command, words): (&str, &[&str]),
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<(), HostcallError> {
    if !guard!(ExecShims) || !is_shim(program) || permit.covers_every_use(command, words) {
        return Ok(());
    }
    let home = &permit.places().home;
    let found = cwd.ancestors().take_while(|folder| folder != home).find_map(|folder| {
        let in_files = version_files(folder, env).into_iter().find_map(|(file, syntax)| {
            let line = naming_line(&file, syntax)?;
            Some(format!("{}:{line}", file.display()))
        });
        in_files.or_else(|| dependency(program, folder).map(|file| file.display().to_string()))
    });
    let Some(named) = found else { return Ok(()) };
    Err(Reason::Scope
        .refusal("exec", "exec", &format!("{command}, a shim, which runs a program of the project here ({named})"))
        .with("hint", format!("grant exec:{command} * if every use of it is meant")))
}

fn is_shim(program: &Program) -> bool {
    let name =
        |path: &Path| path.file_name().map(|name| name_of(&name.to_string_lossy()).to_owned()).unwrap_or_default();
    let (behind, called) = (name(&program.file), name(&program.found));
    let is_manager = MANAGERS.contains(&behind.as_str());
    let is_among_shims = |path: &PathBuf| path.parent().and_then(Path::file_name).is_some_and(|name| name == "shims");
    let is_script = || {
        let text = read_regular(&program.file, MAX_BYTES).unwrap_or_default();
        let text = text.starts_with(b"#!").then(|| String::from_utf8_lossy(&text));
        text.is_some_and(|text| CALLS.iter().any(|call| text.contains(call)))
    };
    (is_manager && behind != called) || [&program.file, &program.found].into_iter().any(is_among_shims) || is_script()
}

/// Returns the version files of a folder.
fn version_files(folder: &Path, env: &BTreeMap<String, String>) -> Vec<(PathBuf, VersionSyntax)> {
    let named =
        NAMES.iter().filter_map(|(variable, syntax)| Some((Path::new(env.get(*variable)?).file_name()?, *syntax)));
    let named: Vec<(&OsStr, VersionSyntax)> = named.collect();
    let mut files = Vec::new();
    for entry in entries(folder) {
        let name = entry.file_name().unwrap_or_default().to_owned();
        let known = named.iter().find(|(known, _)| **known == *name).map(|(_, syntax)| *syntax);
        files.extend(known.or_else(|| version_files::syntax_of(&name.to_string_lossy())).map(|syntax| (entry, syntax)));
    }
    let settings = SETTINGS_FOLDERS.iter().flat_map(|name| entries(&folder.join(name)));
    let settings = settings.chain(entries(&folder.join(".config")).into_iter().filter(|entry| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        ["mise", "rtx"].iter().any(|manager| name.starts_with(manager))
    }));
    files.extend(
        settings
            .filter(|entry| entry.extension().is_some_and(|end| end == "toml"))
            .map(|entry| (entry, VersionSyntax::Settings)),
    );
    files
}

/// Returns the entries of a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// Returns the number of the first line that names something other than a version. An unreadable file counts as a whole.
fn naming_line(file: &Path, syntax: VersionSyntax) -> Option<usize> {
    let Ok(text) = read_regular(file, MAX_BYTES) else { return file.is_file().then_some(1) };
    version_files::naming_line(&String::from_utf8_lossy(&text), syntax)
}

/// Returns the program of the project's dependencies that volta runs instead of the user's.
fn dependency(program: &Program, folder: &Path) -> Option<PathBuf> {
    let name = program.found.file_name()?;
    let is_of_volta = program.file.file_name().is_some_and(|file| file.to_string_lossy().starts_with("volta"))
        || program.found.ancestors().any(|above| above.ends_with(".volta"));
    let is_others = name.to_str().is_none_or(|name| !ONLY_OF_VOLTA.contains(&name_of(name)));
    if !is_of_volta || !is_others {
        return None;
    }
    let program = folder.join("node_modules/.bin").join(name);
    let manifest = folder.join("package.json");
    // `extends` names another manifest, whose folder has dependencies as well.
    let extends = || {
        let text = read_regular(&manifest, MAX_BYTES).unwrap_or_default();
        let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        manifest["volta"]["extends"].is_string()
    };
    if program.symlink_metadata().is_ok() {
        return Some(program);
    }
    extends().then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_files_are_known_by_name_and_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for file in [".config/mise", ".mise/conf.d"] {
            std::fs::create_dir_all(at.join(file)).expect("folders");
        }
        let known = [
            ".config/mise.toml",
            ".config/mise/config.toml",
            ".mise/conf.d/x.toml",
            ".mise.local.toml",
            ".node-version",
            ".nvmrc",
            ".prototools",
            ".tool-versions",
            "mine",
            "mise.ci.toml",
        ];
        for file in known.iter().chain(&["Cargo.toml", ".config/x.toml", "version"]) {
            std::fs::write(at.join(file), "").expect("written");
        }
        let env = BTreeMap::from([("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME".to_owned(), "mine".to_owned())]);
        let mut found: Vec<PathBuf> = version_files(at, &env).into_iter().map(|(file, _)| file).collect();
        found.sort();
        let mut expected = known.map(|file| at.join(file));
        expected.sort();
        assert_eq!(found, expected);
    }
}
