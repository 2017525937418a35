//! Finds the files of the package that computed imports with a relative prefix can reach.

use super::{Modules, module_type};
use crate::parse::parse;
use crate::probe::PathKind;
use crate::rewrite::{Edit, computed_import, reach, reaching_import};
use crate::scan::{ModuleScan, Template, computed};
use rolldown::ModuleType;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Modules {
    /// Links the files that computed imports of a module can reach, so that they exist at run time.
    pub(super) fn reach_templates(&self, path: &Path, name: &str, place: Option<&str>, scan: &mut ModuleScan) {
        let Some(folder) = path.parent() else { return };
        let mut reached: BTreeSet<String> = BTreeSet::new();
        for template in &scan.templates {
            let found = self.files_like(folder, template);
            if found.is_empty() {
                scan.findings.push(computed(template, name, &scan.source));
            }
            reached.extend(found);
        }
        reached.retain(|specifier| self.is_module_beside(path, folder, specifier));
        if reached.is_empty() {
            return;
        }
        let (plain, reaching) = (computed_import(name, place), reaching_import(name, place));
        scan.edits.iter_mut().filter(|edit| edit.text == plain).for_each(|edit| edit.text.clone_from(&reaching));
        let reached: Vec<String> = reached.into_iter().take(MAX_REACHED).collect();
        let end = scan.source.len();
        scan.insertions.push(Edit { start: end, end, text: reach(&reached) });
        let files = reached.iter().filter_map(|specifier| beside(folder, specifier));
        self.state().reached.extend(files.filter_map(|file| file.to_str().map(str::to_owned)));
    }

    /// Returns the specifiers that a computed target can evaluate to, relative to the importer's folder.
    fn files_like(&self, folder: &Path, template: &Template) -> Vec<String> {
        let (within, stem) = template.start.rsplit_once('/').expect("a template begins with a relative path");
        let Some(place) = beside(folder, within) else { return Vec::new() };
        if stem.is_empty() && self.tree.is_around_loose(&place) {
            return Vec::new();
        }
        let listed = self.tree.list(&place);
        let begins = |name: &str| name.starts_with(stem);
        match template.end.split_once('/') {
            // `./plugins/${name}/index.ts`
            Some((tail, rest)) => {
                let folders =
                    listed.iter().filter(|(name, is_folder)| *is_folder && begins(name) && name.ends_with(tail));
                folders.map(|(name, _)| format!("{within}/{name}/{rest}")).collect()
            }
            None => {
                let is_meant = |name: &str| {
                    let alias = template.end.strip_suffix("js").map(|stem| format!("{stem}ts"));
                    name.ends_with(&template.end) || alias.is_some_and(|alias| name.ends_with(&alias))
                };
                let files = listed.iter().filter(|(name, is_folder)| !is_folder && begins(name) && is_meant(name));
                let mut found: Vec<String> = files.map(|(name, _)| format!("{within}/{name}")).collect();
                // A folder may be imported for its index module.
                let folders = listed.iter().filter(|(name, is_folder)| *is_folder && begins(name));
                for (name, _) in folders.filter(|_| template.end.is_empty()) {
                    let inside = beside(folder, &format!("{within}/{name}"));
                    let inside = inside.map(|inside| self.tree.list(&inside)).unwrap_or_default();
                    let index = inside.iter().find(|(name, is_folder)| !is_folder && name.starts_with("index."));
                    found.extend(index.map(|(index, _)| format!("{within}/{name}/{index}")));
                }
                found
            }
        }
    }

    /// Returns whether a specifier names another module, and one that compiles, so that a broken one fails only its importers.
    fn is_module_beside(&self, importer: &Path, folder: &Path, specifier: &str) -> bool {
        let Some(file) = beside(folder, specifier).filter(|file| file != importer) else { return false };
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_declaration = [".d.ts", ".d.mts", ".d.cts"].iter().any(|ending| name.ends_with(ending));
        let kind = file.extension().and_then(|extension| extension.to_str()).and_then(|it| module_type(Some(it)));
        let Some(kind) = kind.filter(|_| !is_declaration) else { return false };
        let Some(located) = self.tree.locate(&file).filter(|_| self.tree.probe(&file) == PathKind::File) else {
            return false;
        };
        let Some(text) = self.tree.read(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return false;
        };
        match kind {
            ModuleType::Json => serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(),
            _ => parse(&located.name, &text, self.tree.limits()).is_ok(),
        }
    }
}

/// Maximum number of files that the computed imports of one module can add.
const MAX_REACHED: usize = 200;

/// Returns the path that a relative specifier names, without access to the file system.
fn beside(folder: &Path, specifier: &str) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in specifier.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop().then_some(())?;
            }
            part => path.push(part),
        }
    }
    Some(path)
}
