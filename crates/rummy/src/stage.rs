//! Finds plugins and makes one package of them.
//!
//! A plugin is a file `X/X.js` or `X/index.js` below a plugin folder, or any `.js` at its top but `index.js`; `*.test.js` and
//! folders that hold a file `DISABLED` are passed over. Names are sorted, so the order is the same on every machine. Plugins
//! that variables name (`RUMMY_PLUGIN_X=PATH-OR-PACKAGE`) follow, sorted by variable.
//!
//! The package is a copy, because code that a realm runs lies in one folder: the dialect's modules, the files of each bundle,
//! and an entry that imports them. Nothing of it runs before the compiler has read it as it reads any extension.

use crate::error::RummyError;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Plugins of one session: many times what rummy brings.
const MOST_PLUGINS: usize = 512;
/// Files of one bundle.
const MOST_FILES: usize = 4096;
/// Bytes of one bundle.
const MOST_BYTES: usize = 64 << 20;
/// Levels of folders in one bundle.
const MOST_LEVELS: usize = 24;

/// Endings of files that code may import or read at run time.
const KEPT: &[&str] = &["cjs", "js", "json", "md", "mjs", "mts", "sql", "ts", "txt"];

/// The modules of the dialect, which are compiled with the plugins.
const DIALECT: &[(&str, &str)] = &[
    ("bundled/assembly.ts", include_str!("../dialect/bundled/assembly.ts")),
    ("bundled/edits.ts", include_str!("../dialect/bundled/edits.ts")),
    ("bundled/index.ts", include_str!("../dialect/bundled/index.ts")),
    ("bundled/shared.ts", include_str!("../dialect/bundled/shared.ts")),
    ("bundled/tools.ts", include_str!("../dialect/bundled/tools.ts")),
    ("entries.ts", include_str!("../dialect/entries.ts")),
    ("hook_registry.ts", include_str!("../dialect/hook_registry.ts")),
    ("hooks.ts", include_str!("../dialect/hooks.ts")),
    ("index.ts", include_str!("../dialect/index.ts")),
    ("loader.ts", include_str!("../dialect/loader.ts")),
    ("plugin_context.ts", include_str!("../dialect/plugin_context.ts")),
    ("profile.ts", include_str!("../dialect/profile.ts")),
    ("rpc_registry.ts", include_str!("../dialect/rpc_registry.ts")),
    ("rummy_context.ts", include_str!("../dialect/rummy_context.ts")),
    ("tool_registry.ts", include_str!("../dialect/tool_registry.ts")),
];

/// A plugin that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    /// Its name: the file's, or the variable's ending in lower case.
    pub name: String,
    /// The path where it was found, as the user knows it.
    pub found: PathBuf,
    /// The specifier that the entry imports: a path in the package, or the name of an installed one.
    import: String,
}

/// A folder of files that is copied as it is.
#[derive(Debug, Clone)]
struct Bundle {
    from: PathBuf,
    to: String,
}

/// The plugins of a session, in the order in which they are constructed.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    plugins: Vec<PluginSource>,
    bundles: Vec<Bundle>,
    /// Packages that are imported by name, and the folder that each is installed in; the first of a name counts.
    packages: Vec<(String, PathBuf)>,
}

impl PluginSet {
    /// Adds the plugins below a folder: those in its `src/plugins`, where it has one, which may import from all of it.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or holds more than a session loads.
    pub fn folder(mut self, folder: &Path) -> Result<Self, RummyError> {
        let from = folder.canonicalize().map_err(at(folder))?;
        let (base, below) = match from.join("src/plugins") {
            nested if nested.is_dir() => (nested, "src/plugins/"),
            _ => (from.clone(), ""),
        };
        let to = format!("bundle{}", self.bundles.len());
        let mut found = Vec::new();
        scan(&base, true, 0, &mut found)?;
        for path in found {
            let relative = path.strip_prefix(&base).unwrap_or(&path);
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let import = format!("./{to}/{below}{}", slashed(relative));
            self.plugins.push(PluginSource { name, found: path, import });
        }
        self.needs(&from, &from.join("node_modules"));
        self.bundles.push(Bundle { from, to });
        self.bounded()
    }

    /// Adds the plugins that variables name: `RUMMY_PLUGIN_X` is an absolute path, or a package in the first of some folders
    /// `node_modules` that has it.
    ///
    /// # Errors
    ///
    /// There is nothing where one of them says.
    pub fn variables(mut self, variables: &BTreeMap<String, String>, modules: &[PathBuf]) -> Result<Self, RummyError> {
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix("RUMMY_PLUGIN_").filter(|_| !value.is_empty()) else { continue };
            let missing = || RummyError::Missing { variable: variable.clone(), value: value.clone() };
            let name = name.to_lowercase();
            let path = Path::new(value);
            if !path.is_absolute() {
                let installed = modules.iter().find(|folder| is_package_name(value) && folder.join(value).is_dir());
                let folder = installed.ok_or_else(missing)?;
                let found = folder.join(value).canonicalize().map_err(|_| missing())?;
                self.packages.push((value.clone(), folder.clone()));
                self.plugins.push(PluginSource { name, found, import: value.clone() });
                continue;
            }
            let found = path.canonicalize().map_err(|_| missing())?;
            let (from, entry) = match found.is_dir() {
                true => (found.clone(), entry_of(&found)),
                false => (
                    found.parent().map(Path::to_owned).unwrap_or_default(),
                    found.file_name().map(PathBuf::from).unwrap_or_default(),
                ),
            };
            if !from.join(&entry).is_file() {
                return Err(missing());
            }
            let to = format!("bundle{}", self.bundles.len());
            let import = format!("./{to}/{}", slashed(&entry));
            self.needs(&from, &from.join("node_modules"));
            self.bundles.push(Bundle { from, to });
            self.plugins.push(PluginSource { name, found, import });
        }
        self.bounded()
    }

    /// The plugins, in the order in which they are constructed.
    pub fn plugins(&self) -> &[PluginSource] {
        &self.plugins
    }

    /// Adds what the manifest of a folder depends on.
    fn needs(&mut self, folder: &Path, modules: &Path) {
        self.packages.extend(dependencies_of(folder).into_iter().map(|name| (name, modules.to_owned())));
    }

    fn bounded(self) -> Result<Self, RummyError> {
        match self.plugins.len() > MOST_PLUGINS {
            true => Err(RummyError::TooMuch { what: "plugins", most: MOST_PLUGINS }),
            false => Ok(self),
        }
    }

    /// Writes the package below `base`, in place of what was there.
    ///
    /// `options` are those of the dialect, as JSON: `{profile, bundled, faithful}`.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, or a bundle is larger than a package may be.
    pub fn stage(&self, base: &Path, options: &serde_json::Value) -> Result<Staged, RummyError> {
        if base.exists() {
            fs::remove_dir_all(base).map_err(at(base))?;
        }
        let package = base.to_owned();
        let dialect = package.join("dialect");
        make(&dialect.join("bundled"))?;
        for (name, source) in DIALECT {
            write(&dialect.join(name), source.as_bytes())?;
        }
        for Bundle { from, to } in &self.bundles {
            let mut copy = Copy { files: 0, bytes: 0 };
            copy.folder(from, &package.join(to), 0)?;
        }
        self.stage_dependencies(&package.join("node_modules"))?;
        write(&package.join("index.js"), self.entry(options).as_bytes())?;
        let manifest = json!({
            "name": "rummy-plugins", "version": "0.0.0", "private": true, "type": "module",
            "pi": { "extensions": ["./index.js"] },
        });
        write(&package.join("package.json"), manifest.to_string().as_bytes())?;
        Ok(Staged { package })
    }

    /// Copies the packages that are imported by name, and what those depend on; one that is not installed is left out, and
    /// whoever imports it is told.
    fn stage_dependencies(&self, to: &Path) -> Result<(), RummyError> {
        let mut waiting: VecDeque<(String, PathBuf)> = self.packages.iter().cloned().collect();
        let mut seen = BTreeSet::new();
        let mut copy = Copy { files: 0, bytes: 0 };
        while let Some((name, modules)) = waiting.pop_front() {
            let from = modules.join(&name);
            if !is_package_name(&name) || !from.is_dir() || !seen.insert(name.clone()) {
                continue;
            }
            let from = from.canonicalize().map_err(at(&from))?;
            copy.package(&from, &to.join(&name))?;
            waiting.extend(dependencies_of(&from).into_iter().map(|name| (name, modules.clone())));
        }
        Ok(())
    }

    /// The module that imports the plugins, each when it is its turn.
    fn entry(&self, options: &serde_json::Value) -> String {
        let mut text = String::from("import { dialect } from \"./dialect/index.ts\";\n\nexport default dialect(");
        let _ = writeln!(text, "{options}, [");
        for PluginSource { name, found, import } in &self.plugins {
            let (name, path, import) = (json!(name), json!(found.to_string_lossy()), json!(import));
            let _ = writeln!(text, "  {{ name: {name}, path: {path}, load: () => import({import}) }},");
        }
        text.push_str("]);\n");
        text
    }
}

/// A package of plugins, ready for the compiler.
#[derive(Debug, Clone)]
pub struct Staged {
    package: PathBuf,
}

impl Staged {
    /// Its folder.
    pub fn package(&self) -> &Path {
        &self.package
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> RummyError {
    let path = path.to_owned();
    move |source| RummyError::File { path: path.clone(), source }
}

fn make(path: &Path) -> Result<(), RummyError> {
    fs::create_dir_all(path).map_err(at(path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), RummyError> {
    fs::write(path, bytes).map_err(at(path))
}

/// A relative path with `/` between its parts, as an import has it.
fn slashed(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The entries of a folder, sorted by name.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>, RummyError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(at(folder))?;
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Collects the plugin files below a folder.
fn scan(folder: &Path, is_top: bool, level: usize, found: &mut Vec<PathBuf>) -> Result<(), RummyError> {
    if level > MOST_LEVELS {
        return Err(RummyError::TooMuch { what: "levels of folders", most: MOST_LEVELS });
    }
    for path in sorted(folder)? {
        let name = name_of(&path);
        let Ok(kind) = path.symlink_metadata().map(|about| about.file_type()) else { continue };
        if kind.is_dir() {
            let is_left_out = name == "node_modules" || name.starts_with('.') || path.join("DISABLED").exists();
            if !is_left_out {
                scan(&path, false, level + 1, found)?;
            }
        } else if kind.is_file() && name.ends_with(".js") && !name.ends_with(".test.js") {
            let is_own = name == "index.js" || name.strip_suffix(".js") == Some(&name_of(folder));
            if is_own != is_top || (is_own && name != "index.js") {
                found.push(path);
            }
        }
    }
    Ok(())
}

/// The manifest of a package; null where there is none that can be read.
fn manifest_of(package: &Path) -> serde_json::Value {
    let manifest = fs::read(package.join("package.json")).unwrap_or_default();
    serde_json::from_slice(&manifest).unwrap_or_default()
}

/// The packages that a manifest depends on.
fn dependencies_of(package: &Path) -> Vec<String> {
    let manifest = manifest_of(package);
    let named = manifest["dependencies"].as_object().into_iter().flatten();
    named.map(|(name, _)| name.clone()).collect()
}

/// Whether a name is one of a package: one folder, or one of a scope.
fn is_package_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains([':', '\\']);
    parts.iter().all(is_plain) && (parts.len() == 1 || (parts.len() == 2 && name.starts_with('@')))
}

/// The module that a package's manifest names.
fn entry_of(package: &Path) -> PathBuf {
    let manifest = manifest_of(package);
    let exports = &manifest["exports"]["."];
    let named = [exports, &exports["import"], &exports["default"], &manifest["main"]];
    let named = named.into_iter().find_map(|named| named.as_str()).unwrap_or("index.js");
    Path::new(named).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Copies what code may import or read; links, tests, hidden folders and dependencies stay where they are.
struct Copy {
    files: usize,
    bytes: usize,
}

impl Copy {
    /// Copies an installed package with the packages inside of it.
    fn package(&mut self, from: &Path, to: &Path) -> Result<(), RummyError> {
        self.folder(from, to, 0)?;
        let inside = from.join("node_modules");
        for path in if inside.is_dir() { sorted(&inside)? } else { Vec::new() } {
            let Ok(about) = path.symlink_metadata() else { continue };
            if about.is_dir() && !name_of(&path).starts_with('.') {
                self.folder(&path, &to.join("node_modules").join(name_of(&path)), 0)?;
            }
        }
        Ok(())
    }

    fn folder(&mut self, from: &Path, to: &Path, level: usize) -> Result<(), RummyError> {
        if level > MOST_LEVELS {
            return Err(RummyError::TooMuch { what: "levels of folders", most: MOST_LEVELS });
        }
        make(to)?;
        for path in sorted(from)? {
            let name = name_of(&path);
            let Ok(about) = path.symlink_metadata() else { continue };
            if name.starts_with('.') || name == "node_modules" {
                continue;
            }
            if about.is_dir() {
                self.folder(&path, &to.join(&name), level + 1)?;
                continue;
            }
            let is_kept = path.extension().is_some_and(|ending| KEPT.iter().any(|kept| ending == *kept));
            if !about.is_file() || !is_kept || name.ends_with(".test.js") {
                continue;
            }
            let bytes = fs::read(&path).map_err(at(&path))?;
            (self.files, self.bytes) = (self.files + 1, self.bytes + bytes.len());
            if self.files > MOST_FILES {
                return Err(RummyError::TooMuch { what: "files in one folder of plugins", most: MOST_FILES });
            }
            if self.bytes > MOST_BYTES {
                return Err(RummyError::TooMuch { what: "bytes in one folder of plugins", most: MOST_BYTES });
            }
            write(&to.join(&name), &bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
            fs::write(path, "export default class {}").expect("written");
        }
        folder
    }

    /// Follows rummy's plugin guide, "Plugin Contract": a folder with a file of its name; sorted, because the order is the
    /// same everywhere then.
    #[test]
    fn plugins_are_files_of_their_folders_name_in_sorted_order() {
        let folder = tree(&[
            "b/b.js",
            "a/index.js",
            "a/helper.js",
            "a/a.test.js",
            "top.js",
            "index.js",
            "c/c.js",
            "c/DISABLED",
            "d/e/e.js",
            "d/d.js",
            ".hidden/hidden.js",
            "node_modules/x/x.js",
        ]);
        let set = PluginSet::default().folder(folder.path()).expect("read");
        let names: Vec<&str> = set.plugins().iter().map(|plugin| plugin.import.as_str()).collect();
        let expected = ["a/index.js", "b/b.js", "d/d.js", "d/e/e.js", "top.js"].map(|name| format!("./bundle0/{name}"));
        assert_eq!(names, expected);
    }

    /// Follows rummy's plugin guide, "External plugins": an absolute path or a package, in the order of the variables' names.
    #[test]
    fn variables_name_files_folders_and_packages() {
        let folder = tree(&[
            "one.js",
            "two/lib/main.js",
            "node_modules/@org/rummy.web/index.js",
            ".pi/npm/node_modules/@org/rummy.web/index.js",
            ".pi/npm/node_modules/installed/index.js",
        ]);
        fs::write(folder.path().join("two/package.json"), r#"{"exports": {".": "./lib/main.js"}}"#).expect("written");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let variables = [
            ("RUMMY_PLUGIN_WEB", "@org/rummy.web".to_owned()),
            ("RUMMY_PLUGIN_INSTALLED", "installed".to_owned()),
            ("RUMMY_PLUGIN_ONE", path("one.js")),
            ("RUMMY_PLUGIN_TWO", path("two")),
            ("RUMMY_PLUGIN_NONE", String::new()),
            ("PATH", "/bin".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let modules = ["node_modules", ".pi/npm/node_modules"].map(|name| folder.path().join(name));
        let set = PluginSet::default().variables(&variables, &modules).expect("all are there");
        let found: Vec<(&str, &str)> = set.plugins().iter().map(|plugin| (&*plugin.name, &*plugin.import)).collect();
        let expected = [
            ("installed", "installed"),
            ("one", "./bundle0/one.js"),
            ("two", "./bundle1/lib/main.js"),
            ("web", "@org/rummy.web"),
        ];
        assert_eq!(found, expected);
        let web = set.plugins().last().expect("there are four");
        assert!(!web.found.components().any(|part| part.as_os_str() == "npm"), "the first folder counts: {web:?}");
        for nowhere in [path("nowhere.js"), "absent".to_owned(), "../two".to_owned()] {
            let missing = [("RUMMY_PLUGIN_X".to_owned(), nowhere)].into_iter().collect();
            let error = PluginSet::default().variables(&missing, &modules).expect_err("it is nowhere");
            assert!(error.to_string().starts_with("RUMMY_PLUGIN_X="), "{error}");
        }
    }

    #[test]
    fn a_package_holds_code_data_and_what_it_depends_on() {
        let folder = tree(&[
            "src/plugins/a/a.js",
            "src/lib/x.js",
            "src/plugins/a/a.test.js",
            "a.png",
            "node_modules/@s/dep/index.js",
            "node_modules/deep/index.js",
            "node_modules/@s/dep/node_modules/own/index.js",
            "node_modules/other/index.js",
        ]);
        let depends = |path: &str, on: &str| {
            fs::write(folder.path().join(path), json!({ "dependencies": { on: "1" } }).to_string()).expect("written");
        };
        depends("package.json", "@s/dep");
        depends("node_modules/@s/dep/package.json", "deep");
        depends("node_modules/deep/package.json", "../../escape");
        let base = tempfile::tempdir().expect("a folder");
        let set = PluginSet::default().folder(folder.path()).expect("read");
        let staged = set.stage(&base.path().join("s"), &json!({"profile": "2.x"})).expect("written");
        let has = |path: &str| staged.package().join(path).is_file();
        for path in [
            "bundle0/src/plugins/a/a.js",
            "bundle0/src/lib/x.js",
            "dialect/index.ts",
            "node_modules/@s/dep/index.js",
            "node_modules/@s/dep/node_modules/own/index.js",
            "node_modules/deep/index.js",
        ] {
            assert!(has(path), "{path}");
        }
        for path in ["bundle0/a.png", "bundle0/src/plugins/a/a.test.js", "node_modules/other/index.js"] {
            assert!(!has(path), "{path}");
        }
        let entry = fs::read_to_string(staged.package().join("index.js")).expect("written");
        assert!(entry.contains(r#"load: () => import("./bundle0/src/plugins/a/a.js")"#), "{entry}");
    }
}
