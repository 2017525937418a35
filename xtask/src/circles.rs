//! Finds import cycles between the modules of a crate.
//!
//! A reader of one module in a cycle has to read all of them, so a cycle has at most [`MAX_MODULES`] top-level modules. A
//! file and the folder of its name count as one module: a parent that calls its children, and children that use its types, are
//! one idea. `lib.rs` and `main.rs` do not count; a name that they re-export refers to the module that defines it.
//!
//! ```text
//! // src/a.rs             // src/b/inner.rs                   // src/lib.rs
//! use crate::b::Value;    fn f(_: super::super::c::C) {}      pub use c::C;
//!                         fn g(_: crate::C) {}                                  a imports b, b imports c
//! ```
//!
//! Imports in tests and in programs in `src/bin` do not count.

use crate::sources::{holds_tests, is_test, sources};
use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use cargo_metadata::Package;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Maximum number of modules in a cycle.
pub const MAX_MODULES: usize = 4;

/// Crates with a larger cycle: the number of modules in their largest one, and the reason. The numbers may only decrease.
pub const LARGER: &[(&str, usize, &str)] =
    &[("pijs-tui", 5, "a view keeps its layers, its completion and its tasks, and each of them draws on it")];

/// Reports the cycles of a package that are too large.
pub fn violations(package: &Package) -> Result<Vec<Violation>> {
    let src = package.manifest_path.parent().expect("a manifest is in a folder").as_std_path().join("src");
    let circles = circles(&read(&src)?).with_context(|| format!("parsing the sources of {}", package.name))?;
    Ok(too_large(&package.name, &circles, LARGER))
}

/// Reports the cycles of a crate that are larger than `exceptions` permit, and exceptions that are not needed.
pub fn too_large(name: &str, circles: &[Vec<String>], exceptions: &[(&str, usize, &str)]) -> Vec<Violation> {
    let exception = exceptions.iter().find(|(package, ..)| *package == name).map(|(_, most, _)| *most);
    let largest = circles.iter().map(Vec::len).max().unwrap_or_default();
    if exception.is_some() && largest <= MAX_MODULES {
        let what =
            format!("has no circle of more than {MAX_MODULES} modules: take it off LARGER of xtask/src/circles.rs");
        return vec![violation(name, what)];
    }
    let most = exception.unwrap_or(MAX_MODULES);
    let report = |circle: &Vec<String>| {
        let what = format!(
            "has an import cycle of {} modules (the limit is {most}): move what they share to a module of its own ({})",
            circle.len(),
            circle.join(", ")
        );
        violation(name, what)
    };
    circles.iter().filter(|circle| circle.len() > most).map(report).collect()
}

/// Reads the sources of a crate, keyed by path relative to its `src`.
pub fn read(src: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for file in sources(src)? {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        files.insert(file.strip_prefix(src).expect("sources are below their folder").to_owned(), text);
    }
    Ok(files)
}

/// Returns the cycles among the top-level modules of a crate, each in alphabetical order.
///
/// # Errors
///
/// Fails if a source does not parse as Rust.
pub fn circles(files: &BTreeMap<PathBuf, String>) -> syn::Result<Vec<Vec<String>>> {
    let mut parsed = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !path.starts_with("bin") && !holds_tests(path)) {
        parsed.push((module_path(path), syn::parse_file(text)?));
    }
    let tests: Vec<Vec<String>> = parsed.iter().flat_map(|(path, file)| test_modules(path, file)).collect();
    parsed.retain(|(path, _)| !tests.iter().any(|test| path.starts_with(test)));
    let names = root_names(&parsed);
    let mut imports: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, file) in &parsed {
        let Some(module) = path.first() else { continue };
        let mut finder = ImportFinder { path: path.clone(), names: &names, found: BTreeSet::new() };
        finder.visit_file(file);
        finder.found.remove(module);
        imports.entry(module).or_default().extend(finder.found);
    }
    Ok(components(&imports))
}

/// Returns the path of a file's module; empty for the root of the crate.
fn module_path(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_root = matches!(&parts[..], [only] if only == "lib" || only == "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Returns the paths of the test modules that a file declares in other files.
fn test_modules(path: &[String], file: &syn::File) -> Vec<Vec<String>> {
    let named = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(item) if item.content.is_none() && is_test(&item.attrs) => Some(item.ident.to_string()),
        _ => None,
    });
    named.map(|name| [path, &[name]].concat()).collect()
}

/// Returns the top-level module of each name in the crate root: a module itself, or the source of a re-exported item.
fn root_names(parsed: &[(Vec<String>, syn::File)]) -> BTreeMap<String, String> {
    let modules: BTreeSet<&String> = parsed.iter().filter_map(|(path, _)| path.first()).collect();
    let mut names = BTreeMap::new();
    for item in parsed.iter().filter(|(path, _)| path.is_empty()).flat_map(|(_, file)| &file.items) {
        let syn::Item::Use(item) = item else { continue };
        for Import { path, name } in imported(&item.tree) {
            let mut parts = path.iter().filter(|part| !matches!(part.as_str(), "crate" | "self"));
            if let (Some(module), Some(_)) = (parts.next(), parts.next())
                && modules.contains(module)
            {
                names.insert(name, module.clone());
            }
        }
    }
    names.extend(modules.into_iter().map(|module| (module.clone(), module.clone())));
    names
}

/// One path of a `use` item, with the name that it brings into scope.
struct Import {
    path: Vec<String>,
    name: String,
}

/// Returns the paths of a `use` item.
fn imported(tree: &syn::UseTree) -> Vec<Import> {
    let one =
        |path: &syn::Ident, name: &syn::Ident| vec![Import { path: vec![path.to_string()], name: name.to_string() }];
    match tree {
        syn::UseTree::Path(path) => {
            let mut imports = imported(&path.tree);
            imports.iter_mut().for_each(|import| import.path.insert(0, path.ident.to_string()));
            imports
        }
        syn::UseTree::Name(name) => one(&name.ident, &name.ident),
        syn::UseTree::Rename(renamed) => one(&renamed.ident, &renamed.rename),
        syn::UseTree::Glob(_) => vec![Import { path: Vec::new(), name: "*".to_owned() }],
        syn::UseTree::Group(group) => group.items.iter().flat_map(imported).collect(),
    }
}

/// Finds the top-level modules that a file imports.
struct ImportFinder<'a> {
    /// Path of the visited module.
    path: Vec<String>,
    /// Top-level modules, by the names in the root.
    names: &'a BTreeMap<String, String>,
    found: BTreeSet<String>,
}

impl ImportFinder<'_> {
    fn see(&mut self, path: &[String]) {
        let module = self.module_of(path).cloned();
        self.found.extend(module);
    }

    /// Returns the top-level module that a path through the crate root refers to.
    fn module_of(&self, path: &[String]) -> Option<&String> {
        let (first, mut rest) = path.split_first()?;
        let mut depth = match first.as_str() {
            "crate" => 0,
            "self" => self.path.len(),
            "super" => self.path.len().checked_sub(1)?,
            _ => return None,
        };
        while let Some((_, after)) = rest.split_first().filter(|(next, _)| *next == "super") {
            (depth, rest) = (depth.checked_sub(1)?, after);
        }
        if depth > 0 {
            return None;
        }
        self.names.get(rest.first()?)
    }

    /// Finds paths in the tokens of a macro. A path from `$crate` is ignored: it may be expanded in any module.
    fn see_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut is_after_dollar) = (0, false);
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => path.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.see(&std::mem::take(&mut path));
                    path.extend((!is_after_dollar).then(|| ident.to_string()));
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.see(&std::mem::take(&mut path));
                    self.see_tokens(group.stream());
                }
                TokenTree::Punct(punct) => {
                    self.see(&std::mem::take(&mut path));
                    (colons, is_after_dollar) = (0, punct.as_char() == '$');
                    continue;
                }
                TokenTree::Literal(_) => self.see(&std::mem::take(&mut path)),
            }
            (colons, is_after_dollar) = (0, false);
        }
        self.see(&path);
    }
}

impl<'ast> Visit<'ast> for ImportFinder<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            imported(&item.tree).iter().for_each(|import| self.see(&import.path));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            self.path.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.path.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.see(&parts);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.see_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// Returns the sets of modules that reach each other through imports.
fn components(imports: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (*module, reached(module, imports))).collect();
    let mut circles = BTreeSet::new();
    for (module, others) in reached.iter().filter(|(module, others)| others.contains(*module)) {
        let comes_back = |other: &&str| reached.get(other).is_some_and(|back| back.contains(module));
        circles.insert(others.iter().copied().filter(comes_back).map(str::to_owned).collect());
    }
    circles.into_iter().collect()
}

/// Returns the modules that a module imports directly or indirectly; includes itself only if it is in a cycle.
fn reached<'a>(from: &str, imports: &'a BTreeMap<&str, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        for import in imports.get(module).into_iter().flatten() {
            if found.insert(import.as_str()) {
                waiting.push(import);
            }
        }
    }
    found
}
