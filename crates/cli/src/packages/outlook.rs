//! Predicts in one line how an installed package will behave: it works, works without some parts, or will not work.
//!
//! The scan reports unresolved imports and features that a realm refuses. A package that would fail at load time will not work;
//! other missing imports, refused features and missing grants mean that it works without some parts. Imports that are missing in
//! pi on Node as well are not named: modules of other runtimes, and guarded imports in a library of packages that are not its
//! dependencies.

use pijs_hostcall::prompt::shown;
use pijs_protocol::artifact::{Finding, Verdict};
use pijs_terminal::counted;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Maximum number of missing parts that are named.
const MAX_NAMED: usize = 6;
/// Maximum displayed length of a name from the code of a package, in characters.
const LONGEST_NAME: usize = 60;
/// Code of the finding for an unresolved import.
const UNRESOLVED: &str = "BD_UNRESOLVED";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    Works,
    WorksWithout(Vec<String>),
    /// The package will not work, for this reason.
    WillNotWork(String),
}

impl Outlook {
    /// Predicts the behaviour from the findings of the scan. `is_useful` means that the package contains something that pi loads,
    /// `lacks_grants` that some of its requests are not granted. `depends(library, name)` returns whether the manifest of a
    /// library lists a dependency.
    pub(super) fn new(
        findings: &[Finding],
        is_useful: bool,
        lacks_grants: bool,
        depends: &dyn Fn(&str, &str) -> bool,
    ) -> Self {
        if !is_useful {
            return Self::WillNotWork("it contains nothing that pi loads".to_owned());
        }
        if let Some(finding) = findings.iter().find(|finding| finding.ends_load) {
            return Self::WillNotWork(format!("{} ({}:{})", finding.message, finding.file, finding.line));
        }
        let mut without = BTreeSet::new();
        without.extend(findings.iter().filter_map(|finding| part(finding, depends)));
        let more = without.len().saturating_sub(MAX_NAMED);
        let mut without: Vec<String> = without.into_iter().take(MAX_NAMED).collect();
        if more > 0 {
            without.push(format!("{} (pi ext show)", counted(more, "more part")));
        }
        if lacks_grants {
            without.push("the permissions that it was not granted".to_owned());
        }
        if without.is_empty() { Self::Works } else { Self::WorksWithout(without) }
    }
}

/// Names the part that a package will miss because of a finding.
fn part(finding: &Finding, depends: &dyn Fn(&str, &str) -> bool) -> Option<String> {
    let library = library_of(&finding.file);
    if finding.code == UNRESOLVED {
        let name = package_of(finding.message.split('`').nth(1)?)?;
        return match library {
            None => Some(format!("`{name}` (missing)")),
            // A library may probe for packages that are not its dependencies.
            Some(library) if depends(library, name) => Some(format!("`{name}` (left out), which `{library}` uses")),
            Some(_) => None,
        };
    }
    // Libraries may probe for optional features.
    if library.is_some() && finding.class != Verdict::Blocked {
        return None;
    }
    let named = shown(finding.message.split('`').nth(1).unwrap_or_default(), LONGEST_NAME);
    match (finding.code.as_str(), finding.class) {
        ("BD_NATIVE", _) => Some("native code".to_owned()),
        ("BD_WORKER", _) => Some("worker threads".to_owned()),
        ("BD_EVENT", _) => Some(format!("its handler of `{named}` (no such event)")),
        ("BD_API", Verdict::Blocked) if finding.message.starts_with("the tool") => {
            Some(format!("its tool `{named}` (no name for a tool)"))
        }
        ("BD_API", Verdict::Blocked) => Some(format!("`{named}` (no such member of pi)")),
        ("BD_SCHEMA", Verdict::Blocked) => Some("a tool that has no schema".to_owned()),
        _ => None,
    }
}

/// Returns the library to which a file belongs; `None` for the author's own file.
fn library_of(file: &str) -> Option<&str> {
    if let Some(rest) = file.strip_prefix("dep:") {
        // The first character may be the `@` of a scope.
        let version = rest.get(1..)?.find('@')? + 1;
        return Some(&rest[..version]);
    }
    let inside = match file.rsplit_once("/node_modules/") {
        Some((_, inside)) => inside,
        None => file.strip_prefix("node_modules/")?,
    };
    package_of(inside)
}

/// Returns the package name at the start of a specifier or a path in `node_modules`; `None` for a module of another runtime,
/// which has a scheme (`bun:sqlite`).
fn package_of(specifier: &str) -> Option<&str> {
    let slashes = usize::from(specifier.starts_with('@'));
    let end = specifier.match_indices('/').nth(slashes).map_or(specifier.len(), |(at, _)| at);
    Some(&specifier[..end]).filter(|name| !name.contains(':'))
}

/// Returns whether the manifest of a library lists a dependency, optional or not. The library is resolved as Node does from
/// `root`.
pub(super) fn depends_on(root: &Path, library: &str, name: &str) -> bool {
    let manifests = root.ancestors().map(|folder| folder.join("node_modules").join(library).join("package.json"));
    let found = manifests.into_iter().find_map(|manifest| std::fs::read(manifest).ok());
    let manifest: Value = found.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    ["dependencies", "optionalDependencies"].iter().any(|kind| manifest[*kind].get(name).is_some())
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::WorksWithout(parts) => match parts.as_slice() {
                [first @ .., last] if !first.is_empty() => write!(f, "works without {} and {last}", first.join(", ")),
                parts => write!(f, "works without {}", parts.concat()),
            },
            Self::WillNotWork(why) => write!(f, "will not work: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &str, class: Verdict, file: &str, message: &str) -> Finding {
        let (code, file, message) = (code.to_owned(), file.to_owned(), message.to_owned());
        Finding { code, class, file, line: 3, column: 1, message, help: None, ends_load: false }
    }

    /// Returns the outlook of a package whose library `x` depends on `native`.
    fn outlook_of(findings: &[Finding], lacks: bool) -> String {
        let depends = |library: &str, name: &str| (library, name) == ("x", "native");
        Outlook::new(findings, true, lacks, &depends).to_string()
    }

    #[test]
    fn one_line_predicts_whether_a_package_works() {
        let absent = |file| finding(UNRESOLVED, Verdict::Warning, file, "`leaf` is not installed: no such package");
        assert_eq!(outlook_of(&[], false), "works");
        assert_eq!(outlook_of(&[], true), "works without the permissions that it was not granted");
        for code in [UNRESOLVED, "BD_API", "BD_DEFAULT_EXPORT"] {
            let ends = Finding { ends_load: true, ..finding(code, Verdict::Blocked, "a.ts", "`leaf` is none") };
            assert_eq!(outlook_of(&[ends], true), "will not work: `leaf` is none (a.ts:3)");
        }
        let native = finding("BD_NATIVE", Verdict::Blocked, "dep:x@1.0.0/a.js", "loads native code");
        for (code, class, message, part) in [
            (
                "BD_EVENT",
                Verdict::Warning,
                "`tool_cal` is not an event of pi, so this handler never runs",
                "its handler of `tool_cal` (no such event)",
            ),
            ("BD_API", Verdict::Blocked, "`frob` is not a function", "`frob` (no such member of pi)"),
            ("BD_API", Verdict::Blocked, "the tool `a b` is not registered: no", "its tool `a b` (no name for a tool)"),
            ("BD_SCHEMA", Verdict::Blocked, "a tool must define one", "a tool that has no schema"),
        ] {
            assert_eq!(outlook_of(&[finding(code, class, "a.ts", message)], false), format!("works without {part}"));
        }
        // A call whose failure is handled is not a missing part.
        assert_eq!(
            outlook_of(&[finding("BD_API", Verdict::Warning, "a.ts", "`frob` is not a function")], false),
            "works"
        );
        let dynamic = finding("BD_DYNAMIC_IMPORT", Verdict::Warning, "a.ts", "computed");
        assert_eq!(
            outlook_of(&[absent("a.ts"), native.clone(), native, dynamic], false),
            "works without `leaf` (missing) and native code"
        );
        assert_eq!(
            Outlook::new(&[], false, false, &|_, _| false).to_string(),
            "will not work: it contains nothing that pi loads"
        );
    }

    #[test]
    fn guarded_imports_are_not_named_and_omitted_packages_are() {
        let absent = |file: &str, name: &str| {
            finding(UNRESOLVED, Verdict::Warning, file, &format!("`{name}` is not installed: no such package"))
        };
        // Modules of other runtimes are missing in pi on Node as well.
        assert_eq!(outlook_of(&[absent("a.ts", "bun:sqlite")], false), "works");
        for file in ["node_modules/x/a.js", "dep:x@1.0.0/lib/a.js", "dep:y@1.0.0/node_modules/x/a.js"] {
            assert_eq!(outlook_of(&[absent(file, "encoding")], false), "works", "{file}");
        }
        assert_eq!(
            outlook_of(&[absent("a.ts", "bun:sqlite"), absent("node_modules/x/a.js", "native/binding")], false),
            "works without `native` (left out), which `x` uses"
        );
        assert_eq!(library_of("dep:@a/b@1.0.0/c.js"), Some("@a/b"));
        assert_eq!(library_of("node_modules/@a/b/c.js"), Some("@a/b"));
        assert_eq!(library_of("src/node_modules.ts"), None);
    }
}
