//! Finds the plugins whose errors keep the package of all plugins from being compiled.

use super::PluginSet;
use pijs_extc::{BuildFailure, Severity};
use std::path::Path;

impl PluginSet {
    /// Replaces the plugins that a failed build names by their errors. Returns whether there were any.
    pub(crate) fn leave_out_broken(&mut self, failure: &BuildFailure) -> bool {
        let mut is_changed = false;
        for diagnostic in failure.diagnostics().iter().filter(|one| one.severity() == Severity::Error) {
            let Some(place) = diagnostic.place() else { continue };
            let broken = |plugin: &&mut super::PluginSource| has_file(&plugin.import, &place.file);
            for plugin in self.plugins.iter_mut().filter(broken).filter(|plugin| plugin.error.is_none()) {
                let name = Path::new(&place.file).file_name().unwrap_or_default().to_string_lossy();
                plugin.error = Some(format!("{name}:{}:{}: {}", place.line, place.column, diagnostic.message()));
                is_changed = true;
            }
        }
        is_changed
    }
}

/// Returns whether a file of the package belongs to the plugin that is imported by `import`: its module, or a file in the folder
/// that it has for itself.
fn has_file(import: &str, file: &str) -> bool {
    let Some(module) = import.strip_prefix("./") else { return false };
    let own_folder = module.rsplit_once('/').map(|(folder, _)| folder).filter(|folder| folder.contains('/'));
    file == module || own_folder.is_some_and(|folder| Path::new(file).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::has_file;

    #[test]
    fn a_plugin_has_its_module_and_the_files_of_its_folder() {
        assert!(has_file("./bundle0/a/a.js", "bundle0/a/a.js"));
        assert!(has_file("./bundle0/a/a.js", "bundle0/a/lib/part.js"));
        assert!(!has_file("./bundle0/a/a.js", "bundle0/ab/ab.js"));
        assert!(has_file("./bundle0/top.js", "bundle0/top.js"));
        assert!(!has_file("./bundle0/top.js", "bundle0/other.js"));
        assert!(!has_file("@org/rummy.x", "dep:@org/rummy.x@1.0.0/index.js"));
    }
}
