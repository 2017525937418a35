//! Where an import leads: Node's algorithm, with TypeScript's suffixes as pi's loader tries them.
//!
//! The bundler would resolve by itself, and nobody would know what it looked at. So imports are resolved here, through
//! [`Sight`], and the bundler is told the outcome: the file, and the manifest that says what kind of file it is.

use crate::looked::Sight;
use crate::tree::SourceTree;
use oxc_resolver::{Resolution, ResolveError, ResolveOptions, ResolverGeneric};
use rolldown_common::ImportKind;
use rolldown_plugin::HookResolveIdOutput;
use std::sync::Arc;

/// The resolver of one build. What it found out about a path it does not ask again.
#[derive(Debug)]
pub(super) struct Resolver {
    import: ResolverGeneric<Sight>,
    require: ResolverGeneric<Sight>,
    tree: Arc<SourceTree>,
}

impl Resolver {
    pub(super) fn new(tree: &Arc<SourceTree>) -> Self {
        let import = ResolverGeneric::new_with_file_system(Sight(Arc::clone(tree)), options("import"));
        let require = import.clone_with_options(options("require"));
        Self { import, require, tree: Arc::clone(tree) }
    }

    /// The file that an import means.
    pub(super) fn resolve(
        &self,
        importer: Option<&str>,
        specifier: &str,
        kind: ImportKind,
    ) -> Result<HookResolveIdOutput, ResolveError> {
        let resolver = if kind == ImportKind::Require { &self.require } else { &self.import };
        // What no file imports starts at the package.
        let found = match importer {
            Some(importer) => resolver.resolve_file(self.tree.package().join(importer), specifier)?,
            None => resolver.resolve(self.tree.package(), specifier)?,
        };
        let package_json_path = self.manifest(&found);
        Ok(HookResolveIdOutput { package_json_path, ..HookResolveIdOutput::from_id(id(&found)) })
    }

    /// Where the bundler is to read what kind of file it is.
    fn manifest(&self, found: &Resolution) -> Option<String> {
        let manifest = found.package_json()?;
        let stand_in = self.tree.parent().and_then(|parent| parent.stand_ins.of(manifest, found.path()));
        let real = || manifest.realpath.to_str().expect("what is seen has names in text").to_owned();
        Some(stand_in.unwrap_or_else(real))
    }
}

fn id(found: &Resolution) -> String {
    found.full_path().into_os_string().into_string().expect("what is seen has names in text")
}

/// `condition`: `import` or `require`.
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
        // Those two default to what the environment says.
        node_path: false,
        yarn_pnp: false,
        // A package's tsconfig says how its author checks it, and may point anywhere.
        tsconfig: None,
        ..Default::default()
    }
}
