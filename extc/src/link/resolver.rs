//! Resolves imports with Node's algorithm, and tries TypeScript's suffixes as pi's loader does.
//!
//! The bundler's own resolver does not report its file accesses. So imports are resolved here, through [`ProbedFiles`], and the
//! bundler receives the result: the file, and the manifest that determines the file's module kind.

use super::probed_files::ProbedFiles;
use crate::tree::SourceTree;
use oxc_resolver::{Resolution, ResolveError, ResolveOptions, ResolverGeneric};
use rolldown_common::ImportKind;
use rolldown_plugin::HookResolveIdOutput;
use std::sync::Arc;

/// The import resolver of one build. It caches lookups.
#[derive(Debug)]
pub(super) struct Resolver {
    import: ResolverGeneric<ProbedFiles>,
    require: ResolverGeneric<ProbedFiles>,
    tree: Arc<SourceTree>,
}

impl Resolver {
    pub(super) fn new(tree: &Arc<SourceTree>) -> Self {
        let import = ResolverGeneric::new_with_file_system(ProbedFiles(Arc::clone(tree)), options("import"));
        let require = import.clone_with_options(options("require"));
        Self { import, require, tree: Arc::clone(tree) }
    }

    /// Resolves an import to a file.
    pub(super) fn resolve(
        &self,
        importer: Option<&str>,
        specifier: &str,
        kind: ImportKind,
    ) -> Result<HookResolveIdOutput, ResolveError> {
        let resolver = if kind == ImportKind::Require { &self.require } else { &self.import };
        // An import without an importing file is resolved from the package.
        let found = match importer {
            Some(importer) => resolver.resolve_file(self.tree.package().join(importer), specifier)?,
            None => resolver.resolve(self.tree.package(), specifier)?,
        };
        let package_json_path = self.manifest(&found);
        Ok(HookResolveIdOutput { package_json_path, ..HookResolveIdOutput::from_id(id(&found)) })
    }

    /// Returns the manifest from which the bundler reads a file's module kind.
    fn manifest(&self, found: &Resolution) -> Option<String> {
        let manifest = found.package_json()?;
        let stub = self.tree.parent().and_then(|parent| parent.manifest_stubs.of(manifest, found.path()));
        let real = || manifest.realpath.to_str().expect("visible paths are UTF-8").to_owned();
        Some(stub.unwrap_or_else(real))
    }
}

fn id(found: &Resolution) -> String {
    found.full_path().into_os_string().into_string().expect("visible paths are UTF-8")
}

/// Returns the options for a condition of `exports`: `import` or `require`.
fn options(condition: &str) -> ResolveOptions {
    let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>();
    ResolveOptions {
        condition_names: list(&[condition, "default", "module-sync", "node"]),
        main_fields: list(&["main"]),
        extensions: list(&[".ts", ".tsx", ".mts", ".cts", ".mjs", ".js", ".cjs", ".jsx", ".json"]),
        extension_alias: vec![
            (".js".to_owned(), list(&[".js", ".ts", ".tsx", ".jsx"])),
            (".jsx".to_owned(), list(&[".jsx", ".tsx"])),
            (".mjs".to_owned(), list(&[".mjs", ".mts"])),
            (".cjs".to_owned(), list(&[".cjs", ".cts"])),
        ],
        builtin_modules: true,
        module_type: true,
        // The defaults of both options come from environment variables.
        node_path: false,
        yarn_pnp: false,
        // A package's tsconfig configures its author's type checks, and may refer to any path.
        tsconfig: None,
        ..Default::default()
    }
}
