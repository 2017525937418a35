//! Rewrite: replaces the expressions in which a module refers to its own location.
//!
//! A bundle has no location, so such expressions become calls of a global that the host provides:
//!
//! ```text
//! import.meta.url          →  __pi_module_location("src/a.ts").url
//! import.meta.dirname      →  __pi_module_location("src/a.ts").dirname
//! import.meta.filename     →  __pi_module_location("src/a.ts").filename
//! import.meta.resolve(x)   →  __pi_module_location("src/a.ts").resolve(x)
//! __dirname, __filename    →  __pi_module_location("src/a.ts").dirname, .filename
//! module, exports          →  __pi_module_location("src/a.ts").module, .module.exports   (in a module that exports)
//! import(computed)         →  __pi_module_location("src/a.ts").import((target) => import(target))(computed)
//! import(`./x/${name}`)    →  __pi_module_location("src/a.ts").import((target) => import(target), __pi_reach)(`./x/${name}`)
//!
//! const require = createRequire(import.meta.url);     const __pi_created_require = createRequire(...);
//! const yaml = require("yaml");                   →   const yaml = require("yaml");       (bundled)
//! require.resolve(name);                              __pi_created_require.resolve(name);
//! ```
//!
//! `__pi_module_location(file)` takes a file's name as `artifact.json` lists it in `inputs`: a path inside the package,
//! `dep:NAME@VERSION/PATH` for a dependency outside it, or `""` for the package. The second argument, for a dependency, is its
//! path relative to the package (`"../NAME/PATH"`). The call returns `{url, dirname, filename, module, resolve(specifier),
//! import(load)}` of the real location. `pi:runtime` defines the global.
//!
//! The edits also cover assignments to constants, tests of accumulated text, and, in packages that use `node:async_hooks`,
//! `await`: see [the scan](crate::scan).
//!
//! Edits apply to the author's text, so that the rest of it, including line breaks, stays unchanged.

use oxc_sourcemap::SourceMap;
use string_wizard::{MagicString, SourceMapOptions};

/// A replacement of bytes `start..end` of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: String,
}

/// The part of a location that an expression needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// The location object; a member access follows in the source.
    Object,
    Dirname,
    Filename,
    /// CommonJS's `module` in an ES module, where pi's loader provides it as well.
    Module,
    Exports,
}

/// Returns the expression for the location of `file`. `place` is its path relative to the package if it is outside.
pub(crate) fn location(file: &str, place: Option<&str>, part: Location) -> String {
    let member = match part {
        Location::Object => "",
        Location::Dirname => ".dirname",
        Location::Filename => ".filename",
        Location::Module => ".module",
        Location::Exports => ".module.exports",
    };
    let name = serde_json::Value::from(file);
    match place.map(serde_json::Value::from) {
        Some(place) => format!("__pi_module_location({name}, {place}){member}"),
        None => format!("__pi_module_location({name}){member}"),
    }
}

/// Returns the replacement of `import` in `import(target)` where the target is unknown before run time.
pub(crate) fn computed_import(file: &str, place: Option<&str>) -> String {
    format!("{}.import((target) => import(target))", location(file, place, Location::Object))
}

/// Returns the replacement of `import` where files of the package can be the target: [`reach`] lists them.
pub(crate) fn reaching_import(file: &str, place: Option<&str>) -> String {
    format!("{}.import((target) => import(target), {REACH})", location(file, place, Location::Object))
}

/// Name of the function that lists the possible targets of a module's computed imports.
const REACH: &str = "__pi_reach";

/// Returns the source of the function [`REACH`], which is appended to a module; specifiers are relative to the module. It is
/// hoisted, so that an import that runs during evaluation can call it.
pub(crate) fn reach(specifiers: &[String]) -> String {
    let members: Vec<String> = specifiers
        .iter()
        .map(|specifier| {
            let specifier = serde_json::Value::from(specifier.as_str());
            format!("{specifier}: () => import({specifier})")
        })
        .collect();
    format!("\nfunction {REACH}() {{ return {{ {} }}; }}\n", members.join(", "))
}

/// Applies edits sorted by position, and insertions. Returns `None` if there are none.
pub(crate) fn rewrite(
    file: &str,
    source: &str,
    edits: &[Edit],
    insertions: &[Edit],
) -> Option<(String, SourceMap<'static>)> {
    if edits.is_empty() && insertions.is_empty() {
        return None;
    }
    let inside = |at: usize| edits.iter().any(|edit| edit.start < at && at < edit.end);
    let mut text = MagicString::new(source);
    let offset = |at: usize| u32::try_from(at).expect("a source file has at most 12 MB");
    for edit in edits {
        text.update(offset(edit.start), offset(edit.end), edit.text.clone())
            .expect("the scan's edits are inside the text and do not overlap");
    }
    // A replacement text contains no `await`, so insertions inside it are dropped.
    for insertion in insertions.iter().filter(|insertion| !inside(insertion.start)) {
        text.append_left(offset(insertion.start), insertion.text.clone())
            .expect("an insertion is between characters of the text");
    }
    let map = text.source_map(SourceMapOptions {
        source: file.into(),
        hires: string_wizard::Hires::Boundary,
        ..Default::default()
    });
    Some((text.to_string(), map))
}
