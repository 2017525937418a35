//! Finds plugins and stages them as one package.
//!
//! A plugin is a file `X/X.js` or `X/index.js` below a plugin folder, or any `.js` file directly in it except `index.js`. Files
//! `*.test.js` and folders with a file `DISABLED` are skipped. Names are sorted, so the order is the same on every machine.
//! Plugins in variables (`RUMMY_PLUGIN_X=PATH-OR-PACKAGE`) follow, sorted by variable. Each has a separate package, realm and
//! grants ([`ExternalPlugin`]).
//!
//! The package is a copy, because all code of a realm has to be in one folder: the dialect's modules, the files of each bundle,
//! and an entry that imports them. It is compiled like any extension. Files are copied under the rules for files of a build
//! ([`copy`]), and only the user can read the copy.

mod broken;
mod copy;
mod external;

pub(crate) use copy::leads_out;
pub use external::ExternalPlugin;
pub(crate) use external::{options_with_externals, remove_others};

use crate::error::RummyError;
use copy::{Copied, Copier, Source};
use pijs_extc::FileAccess;
use pijs_hostcall::BuildRecord;
use pijs_packages::InstallScope;
use pijs_protocol::{ExtensionId, guard};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Maximum number of plugins in a session: many times the number that rummy includes.
const MAX_PLUGINS: usize = 512;
/// Maximum number of plugins with their own realm, which is a process each.
const MAX_EXTERNAL: usize = 32;
/// Maximum number of files in one bundle.
const MAX_FILES: usize = 4096;
/// Maximum size of one bundle in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of folder levels in one bundle.
const MAX_LEVELS: usize = 24;
/// Advice for plugins that exceed a limit.
const SKIP_PLUGINS: &str = "put a file named DISABLED in the folder of each plugin to skip";

/// Suffixes of files that code may import or read at run time.
const KEPT: &[&str] = &["cjs", "js", "json", "md", "mjs", "mts", "sql", "ts", "txt"];

/// The modules of the dialect, which are compiled with the plugins.
const DIALECT: &[(&str, &str)] = &[
    ("bundled/edits.ts", include_str!("../dialect/bundled/edits.ts")),
    ("bundled/hedberg.ts", include_str!("../dialect/bundled/hedberg.ts")),
    ("bundled/shared.ts", include_str!("../dialect/bundled/shared.ts")),
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

/// Bundled plugins of the shared realm.
const BUNDLED: &[(&str, &str)] = &[
    ("bundled/assembly.ts", include_str!("../dialect/bundled/assembly.ts")),
    ("bundled/index.ts", include_str!("../dialect/bundled/index.ts")),
    ("bundled/tools.ts", include_str!("../dialect/bundled/tools.ts")),
];

/// Bundled plugins of the realm of an external plugin.
const BUNDLED_EXTERNAL: &[(&str, &str)] = &[("bundled/index.ts", include_str!("../dialect/bundled/external.ts"))];

/// A plugin and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    /// Name of the plugin: that of its file, or the suffix of the variable in lower case.
    pub name: String,
    /// Path at which the plugin was found, for messages.
    pub found: PathBuf,
    /// Specifier that the entry imports: a path in the package, or the name of an installed package.
    import: String,
    /// Error in its files that would keep the package from being compiled: the plugin is not imported, and reports it.
    error: Option<String>,
}

/// A folder whose files are copied.
#[derive(Debug, Clone)]
struct Bundle {
    from: Source,
    to: String,
}

/// A package that is imported by name.
#[derive(Debug, Clone)]
struct Needed {
    name: String,
    /// `node_modules` folder in which the package is searched.
    modules: PathBuf,
    /// Folder that depends on the package, or `modules` itself. The package has to be in it, or in a `node_modules` of a parent
    /// folder.
    within: Source,
}

/// The plugins of a session, in the order in which they are constructed.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    plugins: Vec<PluginSource>,
    bundles: Vec<Bundle>,
    /// Packages that are imported by name. If several have the same name, the first is used.
    packages: Vec<Needed>,
    /// Messages about files that were left out, each with the reason.
    refused: Vec<String>,
    /// Plugins with their own package.
    externals: Vec<ExternalPlugin>,
    /// Whether this set is the package of one such plugin.
    is_external: bool,
}

impl PluginSet {
    /// Adds the plugins below a folder, or below its `src/plugins` if that exists; then they may import from the whole folder.
    ///
    /// # Errors
    ///
    /// Fails when the folder cannot be read, or contains more plugins than a session loads.
    pub fn folder(mut self, folder: &Path) -> Result<Self, RummyError> {
        let from = folder.canonicalize().map_err(at(folder))?;
        let (base, below) = match from.join("src/plugins") {
            nested if nested.is_dir() && !self.refuses_link(&nested, &from) => (nested, "src/plugins/"),
            _ => (from.clone(), ""),
        };
        let to = format!("bundle{}", self.bundles.len());
        let mut found = Vec::new();
        scan(&base, true, 0, &mut found)?;
        for path in found {
            let relative = path.strip_prefix(&base).unwrap_or(&path);
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let import = format!("./{to}/{below}{}", slashed(relative));
            self.plugins.push(PluginSource { name, found: path, import, error: None });
        }
        self.bundle(Source { folder: from, loose: None }, to);
        self.bounded()
    }

    /// Adds the plugins in variables, each with its own package. `RUMMY_PLUGIN_X` is an absolute path or the name of a package,
    /// which is looked up in these `node_modules` folders in order.
    ///
    /// # Errors
    ///
    /// Fails when a variable names a path or package that does not exist.
    pub fn variables(
        mut self,
        variables: &BTreeMap<String, String>,
        modules: &[(PathBuf, InstallScope)],
    ) -> Result<Self, RummyError> {
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix("RUMMY_PLUGIN_").filter(|_| !value.is_empty()) else { continue };
            let mut apart = Self { is_external: true, ..Self::default() };
            let name = name.to_lowercase();
            let identity = match Path::new(value).is_absolute() {
                true => apart.file_or_folder(variable, value, &name)?,
                false => apart.installed(variable, value, &name, modules)?,
            };
            let Some((id, installed)) = identity else {
                self.refused.append(&mut apart.refused);
                continue;
            };
            match guard!(RummyRealms) {
                true => self.externals.push(ExternalPlugin { name, id, installed, set: apart }),
                false => self.join(apart),
            }
        }
        self.bounded()
    }

    /// Adds the plugins of another set to the shared realm.
    fn join(&mut self, other: Self) {
        let to = self.bundles.len();
        self.bundles.extend(other.bundles.into_iter().map(|bundle| Bundle { to: format!("bundle{to}"), ..bundle }));
        let moved = |import: String| import.replacen("./bundle0/", &format!("./bundle{to}/"), 1);
        let plugins = other.plugins.into_iter();
        self.plugins.extend(plugins.map(|plugin| PluginSource { import: moved(plugin.import), ..plugin }));
        self.packages.extend(other.packages);
        self.refused.extend(other.refused);
    }

    /// Adds an installed package. Returns its identity; `None` if its `node_modules` is a link to another kind of folder.
    fn installed(
        &mut self,
        variable: &str,
        value: &str,
        name: &str,
        modules: &[(PathBuf, InstallScope)],
    ) -> Result<Option<(ExtensionId, Option<InstallScope>)>, RummyError> {
        let missing = || RummyError::Missing { variable: variable.to_owned(), value: value.to_owned() };
        let installed = modules.iter().find(|(folder, _)| is_package_name(value) && folder.join(value).is_dir());
        let (folder, scope) = installed.ok_or_else(missing)?;
        let found = folder.join(value).canonicalize().map_err(|_| missing())?;
        let within = Source { folder: folder.canonicalize().map_err(at(folder))?, loose: None };
        // Other folders also contain files that are not packages.
        if !within.folder.ends_with("node_modules") && guard!(RummyLinks) {
            self.refused.push(leads_out(folder, &within.folder, &folder.with_file_name("")));
            return Ok(None);
        }
        self.packages.push(Needed { name: value.to_owned(), modules: folder.clone(), within });
        let import = value.to_owned();
        self.plugins.push(PluginSource { name: name.to_owned(), found, import, error: None });
        Ok(Some((ExtensionId::new(format!("rummy:{value}")), Some(*scope))))
    }

    /// Adds a plugin by its path. Returns its identity.
    fn file_or_folder(
        &mut self,
        variable: &str,
        value: &str,
        name: &str,
    ) -> Result<Option<(ExtensionId, Option<InstallScope>)>, RummyError> {
        let missing = || RummyError::Missing { variable: variable.to_owned(), value: value.to_owned() };
        let found = Path::new(value).canonicalize().map_err(|_| missing())?;
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
        let loose = (!found.is_dir()).then(|| found.clone());
        self.bundle(Source { folder: from, loose }, to);
        let id = ExtensionId::new(format!("path:{}", found.display()));
        self.plugins.push(PluginSource { name: name.to_owned(), found, import, error: None });
        Ok(Some((id, None)))
    }

    /// Returns the plugins with their own package, in the order of their construction. They are constructed after all others.
    pub fn externals(&self) -> &[ExternalPlugin] {
        &self.externals
    }

    /// Returns the plugins that share a realm, in the order of their construction.
    pub fn plugins(&self) -> &[PluginSource] {
        &self.plugins
    }

    /// Returns whether a folder is a link that leads out of `within`. Records such a folder as left out.
    pub(crate) fn refuses_link(&mut self, folder: &Path, within: &Path) -> bool {
        let leads = |real: &Path| within.canonicalize().is_ok_and(|within| !real.starts_with(within));
        let Some(real) = folder.canonicalize().ok().filter(|real| leads(real) && guard!(RummyLinks)) else {
            return false;
        };
        self.refused.push(leads_out(folder, &real, within));
        true
    }

    /// Adds a bundle and the dependencies of its manifest.
    fn bundle(&mut self, from: Source, to: String) {
        let modules = from.folder.join("node_modules");
        let needed = |name| Needed { name, modules: modules.clone(), within: from.clone() };
        self.packages.extend(dependencies_of(&from.folder).into_iter().map(needed));
        self.bundles.push(Bundle { from, to });
    }

    fn bounded(self) -> Result<Self, RummyError> {
        match (self.plugins.len() > MAX_PLUGINS, self.externals.len() > MAX_EXTERNAL) {
            (true, _) => Err(RummyError::TooMuch { what: "too many plugins", most: MAX_PLUGINS, help: SKIP_PLUGINS }),
            (_, true) => Err(RummyError::TooMuch {
                what: "too many RUMMY_PLUGIN_* variables",
                most: MAX_EXTERNAL,
                help: "unset some of them",
            }),
            _ => Ok(self),
        }
    }

    /// Writes the package below `base`, and replaces the package's previous contents.
    ///
    /// `options` are those of the dialect in JSON: `{profile, bundled, faithful}`. Leaves out files that `access` denies to a
    /// build, and folders and packages whose links lead out; the record lists them.
    ///
    /// # Errors
    ///
    /// Fails when a file cannot be read or written, and when a bundle exceeds a limit.
    pub fn stage(&self, base: &Path, options: &serde_json::Value, access: &FileAccess) -> Result<Staged, RummyError> {
        if base.exists() {
            fs::remove_dir_all(base).map_err(at(base))?;
        }
        make_private(base)?;
        let package = base.to_owned();
        let dialect = package.join("dialect");
        make(&dialect.join("bundled"))?;
        let bundled = if self.is_external { BUNDLED_EXTERNAL } else { BUNDLED };
        for (name, source) in DIALECT.iter().chain(bundled) {
            write(&dialect.join(name), source.as_bytes())?;
        }
        let mut copier = Copier::new(access, base.canonicalize().map_err(at(base))?, self.refused.clone());
        for Bundle { from, to } in &self.bundles {
            copier.folder(from, &mut Copied::default(), (&from.folder, &package.join(to)), 0)?;
        }
        self.stage_dependencies(&mut copier, &package.join("node_modules"))?;
        write(&package.join("index.js"), self.entry(options).as_bytes())?;
        let manifest = json!({
            "name": "rummy-plugins", "version": "0.0.0", "private": true, "type": "module",
            "pi": { "extensions": ["./index.js"] },
        });
        write(&package.join("package.json"), manifest.to_string().as_bytes())?;
        Ok(Staged { package, record: copier.record() })
    }

    /// Copies the packages that are imported by name, and their dependencies. A package that is not installed is left out, and
    /// the importing plugin gets an error.
    fn stage_dependencies(&self, copier: &mut Copier<'_>, to: &Path) -> Result<(), RummyError> {
        let mut waiting: VecDeque<Needed> = self.packages.iter().cloned().collect();
        let mut seen = BTreeSet::new();
        let mut copied = Copied::default();
        while let Some(Needed { name, modules, within }) = waiting.pop_front() {
            let from = modules.join(&name);
            if !is_package_name(&name) || !from.is_dir() || seen.contains(&name) {
                continue;
            }
            let real = from.canonicalize().map_err(at(&from))?;
            if !copier.holds(&within, &from, &real)? {
                continue;
            }
            copier.package(&within, &mut copied, &real, &to.join(&name))?;
            let needed = |name| Needed { name, modules: modules.clone(), within: within.clone() };
            waiting.extend(dependencies_of(&real).into_iter().map(needed));
            seen.insert(name);
        }
        Ok(())
    }

    /// Returns the entry module, which imports the plugins in order.
    fn entry(&self, options: &serde_json::Value) -> String {
        let mut text = String::from("import { dialect } from \"./dialect/index.ts\";\n\nexport default dialect(");
        let _ = writeln!(text, "{options}, [");
        for PluginSource { name, found, import, error } in &self.plugins {
            let (name, path, import) = (json!(name), json!(found.to_string_lossy()), json!(import));
            let load = match error {
                Some(error) => format!("Promise.reject(new SyntaxError({}))", json!(error)),
                None => format!("import({import})"),
            };
            let _ = writeln!(text, "  {{ name: {name}, path: {path}, load: () => {load} }},");
        }
        text.push_str("]);\n");
        text
    }
}

/// A package of plugins, ready for the compiler.
#[derive(Debug)]
pub struct Staged {
    package: PathBuf,
    record: BuildRecord,
}

impl Staged {
    /// Returns the folder of the package.
    pub fn package(&self) -> &Path {
        &self.package
    }

    /// Returns the record of copied and omitted files.
    pub fn record(&self) -> &BuildRecord {
        &self.record
    }

    /// Returns the folder of the package and the record of copied files.
    pub fn into_parts(self) -> (PathBuf, BuildRecord) {
        (self.package, self.record)
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> RummyError {
    let path = path.to_owned();
    move |source| RummyError::File { path: path.clone(), source }
}

fn make(path: &Path) -> Result<(), RummyError> {
    fs::create_dir_all(path).map_err(at(path))
}

/// Creates a folder that only the user can read.
fn make_private(path: &Path) -> Result<(), RummyError> {
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.create(path).map_err(at(path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), RummyError> {
    fs::write(path, bytes).map_err(at(path))
}

/// Returns a relative path with `/` between its parts, as in an import.
fn slashed(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the entries of a folder, sorted by name.
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
    if level > MAX_LEVELS {
        return Err(RummyError::TooMuch {
            what: "too many levels of plugin folders",
            most: MAX_LEVELS,
            help: SKIP_PLUGINS,
        });
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

/// Returns the manifest of a package; null if it is missing, unreadable or a link.
fn manifest_of(package: &Path) -> serde_json::Value {
    let path = package.join("package.json");
    let is_file = path.symlink_metadata().is_ok_and(|about| about.is_file());
    let manifest = if is_file { fs::read(path).unwrap_or_default() } else { Vec::new() };
    serde_json::from_slice(&manifest).unwrap_or_default()
}

/// Returns the dependencies in a package's manifest.
fn dependencies_of(package: &Path) -> Vec<String> {
    let manifest = manifest_of(package);
    let named = manifest["dependencies"].as_object().into_iter().flatten();
    named.map(|(name, _)| name.clone()).collect()
}

/// Returns whether a text is the name of a package, with or without a scope.
fn is_package_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains([':', '\\']);
    parts.iter().all(is_plain) && (parts.len() == 1 || (parts.len() == 2 && name.starts_with('@')))
}

/// Returns the main module of a package.
fn entry_of(package: &Path) -> PathBuf {
    let manifest = manifest_of(package);
    let exports = &manifest["exports"]["."];
    let named = [exports, &exports["import"], &exports["default"], &manifest["main"]];
    let named = named.into_iter().find_map(|named| named.as_str()).unwrap_or("index.js");
    Path::new(named).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

#[cfg(test)]
mod tests;
