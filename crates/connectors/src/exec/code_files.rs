//! Finds the files and folders from which a command runs code, among those that exist or may come to exist.
//!
//! The user's settings name such commands: servers, editors, commands that produce a key. A later run starts them with the user's
//! authority, so extensions must not write their code.

use pijs_hostcall::places::normal;
use pijs_programs::code_paths::{CodePath, code_paths};
use pijs_protocol::guard;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A command that the user's settings name.
#[derive(Debug, Clone, Copy)]
pub struct NamedCommand<'a> {
    /// The program, by name or path.
    pub command: &'a str,
    /// Its arguments.
    pub args: &'a [String],
    /// Variables of its own.
    pub env: &'a BTreeMap<String, String>,
}

/// Endings that Node, Python and others add to the name of a script or module.
const SCRIPT_ENDINGS: [&str; 13] =
    ["cjs", "cts", "js", "json", "jsx", "lua", "mjs", "mts", "php", "py", "rb", "ts", "tsx"];

/// Lists the files that a program started in `folder` runs, including files that options, URLs, variables and the words of a shell
/// command line name; also folders from which it reads code ([`CodePath`]). Folders that contain the project or the home are left
/// out: `/` in a command line does not mean every file.
pub fn code_files(named: &NamedCommand<'_>, folder: &Path, [project, home]: [&Path; 2]) -> Vec<PathBuf> {
    let NamedCommand { command, args, env } = named;
    let found = code_paths(command, args, env, &home.to_string_lossy());
    let named: Vec<PathBuf> = found.iter().filter_map(|path| entered(path).map(|named| folder.join(named))).collect();
    // The environment of a Python that is called by its path.
    let environment = Path::new(command).parent().and_then(Path::parent).map(|above| folder.join(above));
    let mut paths: Vec<PathBuf> = environment.into_iter().filter(|above| above.join("pyvenv.cfg").is_file()).collect();
    for base in std::iter::once(folder).chain(named.iter().map(PathBuf::as_path)) {
        for path in found.iter().filter(|_| guard!(PlacesNamedPrograms)) {
            add_existing(&mut paths, base, path);
        }
    }
    paths.extend(named);
    let is_above = |path: &Path| [project, home].into_iter().any(|used| used != path && used.starts_with(path));
    paths.retain(|path| !is_above(&normal(Path::new("/"), path)));
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the folder that the program certainly works in or reads code from.
fn entered(path: &CodePath) -> Option<&str> {
    match path {
        CodePath::Folder(path) => Some(path),
        _ => None,
    }
}

/// Adds a candidate, relative to `base`, if it exists or may come to exist.
fn add_existing(paths: &mut Vec<PathBuf>, base: &Path, path: &CodePath) {
    match path {
        CodePath::Folder(_) => {}
        CodePath::Searched(path) => paths.extend(Some(base.join(path)).filter(|path| path.is_dir())),
        CodePath::File(path) => paths.extend(Some(base.join(path)).filter(|path| may_be_code(path))),
        CodePath::Program(path) => {
            let path = base.join(path);
            let is_system = ["/dev", "/proc", "/sys"].iter().any(|system| path.starts_with(system));
            paths.extend(Some(path).filter(|path| !is_system && (path.is_file() || !path.exists())));
        }
        CodePath::Module(name) => {
            let module = base.join(name);
            paths.extend([module.with_extension("py"), module]);
        }
        CodePath::Script(name) => {
            let path = base.join(name);
            if path.is_dir() || may_be_code(&path) {
                paths.push(path);
                return;
            }
            let with = |ending: &&str| base.join(format!("{name}.{ending}"));
            let known: Vec<PathBuf> = SCRIPT_ENDINGS.iter().map(with).filter(|path| path.is_file()).collect();
            match known.is_empty() && name.starts_with(['/', '.']) {
                true => paths.extend(Some(path).filter(|path| !path.exists())),
                false => paths.extend(known),
            }
        }
    }
}

fn may_be_code(file: &Path) -> bool {
    file.is_file() || (file.extension().is_some() && !file.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_count_as_they_exist() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        for file in ["pre.js", "dir/index.js", "srv/x.mjs", "data.txt", "venv/pyvenv.cfg", "home/x", "project/x"] {
            let path = at.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, "").expect("written");
        }
        let files = |command: &str, args: &[&str]| -> Vec<String> {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let named = NamedCommand { command, args: &args, env: &BTreeMap::new() };
            let found = code_files(&named, &at, [&at.join("project"), &at.join("home")]);
            let names = found.iter().map(|path| normal(Path::new("/"), path));
            names.map(|path| path.strip_prefix(&at).unwrap_or(&path).display().to_string()).collect()
        };
        assert_eq!(files("node", &["-r", "./pre", "dir"]), ["dir", "pre.js"]);
        assert_eq!(files("sh", &["-c", "cd srv && exec node x.mjs"]), ["srv", "srv/x.mjs", "x.mjs"]);
        assert_eq!(files("sh", &["-c", "exec ./to/come"]), ["to/come"]);
        assert_eq!(files("venv/bin/python", &["-c", "1"]), ["venv", "venv/bin/python"]);
        assert_eq!(files("bwrap", &["--bind", "/", "/", "x"]), Vec::<String>::new());
    }
}
