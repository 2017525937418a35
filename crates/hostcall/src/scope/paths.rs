//! Paths of a scope: names and patterns, matched on absolute, normalised paths.

use super::{CompiledScope, ScopeError};
use crate::places::{Places, is_settings_name, normal};
use globset::{GlobBuilder, GlobMatcher};
use std::path::{Path, PathBuf};

/// Longest pattern, so that compiling one stays cheap whatever a manifest holds.
pub(super) const LONGEST_PATTERN: usize = 1024;
/// Most alternatives (`{a,b}`) in a pattern.
pub(super) const MOST_BRACES: usize = 8;

/// Paths that a scope covers.
#[derive(Debug, Clone)]
pub(super) enum PathPattern {
    /// A file, or a folder and everything in it.
    Below(PathBuf),
    Glob(GlobMatcher),
}

impl CompiledScope {
    /// A scope of exactly these paths (folders with what is in them).
    pub(crate) fn exactly(paths: Vec<PathBuf>) -> Self {
        Self { paths: Some(paths.into_iter().map(PathPattern::Below).collect()), ..Self::default() }
    }

    /// Whether an absolute, normalised path is inside.
    pub fn path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                PathPattern::Below(folder) => path.starts_with(folder),
                PathPattern::Glob(glob) => glob.is_match(path),
            })
        })
    }

    /// Returns the folder of each pattern that covers a path; `None` for one with wildcards, and for a scope without paths.
    pub(crate) fn patterns_at<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = Option<&'a Path>> {
        let anywhere = self.paths.is_none().then_some(None);
        let patterns = self.paths.iter().flatten().filter_map(move |pattern| match pattern {
            PathPattern::Below(folder) => path.starts_with(folder).then_some(Some(folder.as_path())),
            PathPattern::Glob(glob) => glob.is_match(path).then_some(None),
        });
        anywhere.into_iter().chain(patterns)
    }

    /// Whether it says which paths it is about.
    pub(crate) fn has_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Whether a pattern without wildcards names exactly this path: what a file that runs later
    /// needs.
    pub fn names_path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| matches!(pattern, PathPattern::Below(named) if named == path))
        })
    }

    /// Whether a pattern that covers `path` names the folder or file of `home` that it lies in (`~/.config/x/**`), not all
    /// of the home: what a folder of settings needs.
    pub(crate) fn names_in_home(&self, path: &Path, home: &Path) -> bool {
        self.paths.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                PathPattern::Below(folder) => path.starts_with(folder) && folder != home && folder.starts_with(home),
                PathPattern::Glob(glob) => glob.is_match(path) && begins_in_settings(glob.glob().glob(), home),
            })
        })
    }
}

/// A pattern that means exactly this absolute path, as it is written into a grant.
pub(crate) fn escaped_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains(['*', '?', '[', '{']) { escaped(&text) } else { text.into_owned() }
}

/// Whether a pattern of paths begins with the home and the name of a folder of settings there.
fn begins_in_settings(pattern: &str, home: &Path) -> bool {
    let home = escaped(&home.to_string_lossy());
    let rest = pattern.strip_prefix(home.as_str()).and_then(|rest| rest.strip_prefix('/'));
    rest.and_then(|rest| rest.split('/').next()).is_some_and(is_settings_name)
}

/// A name in a pattern. The library leaves backslashes, which would take the brackets that it puts around wildcards.
fn escaped(name: &str) -> String {
    globset::escape(name).replace('\\', "\\\\")
}

/// Compiles a pattern, which may stand for several places.
pub(super) fn compile_path(
    pattern: &str,
    places: &Places,
    package_root: Option<&Path>,
) -> Result<Vec<PathPattern>, ScopeError> {
    let fail = |problem: &str| ScopeError { pattern: pattern.to_owned(), problem: problem.to_owned() };
    if pattern.len() > LONGEST_PATTERN {
        return Err(fail("too long"));
    }
    if pattern.contains('\0') {
        return Err(fail("contains a null byte"));
    }
    if pattern.matches('{').count() > MOST_BRACES {
        return Err(fail("too many alternatives"));
    }
    let mut compiled = Vec::new();
    for (base, rest) in places.expand(pattern, package_root) {
        if !rest.contains(['*', '?', '[', '{']) {
            compiled.push(PathPattern::Below(normal(&base, Path::new(&rest))));
            continue;
        }
        if Path::new(&rest).iter().any(|name| name == "..") {
            return Err(fail("`..` beside a wildcard"));
        }
        let whole = if Path::new(&rest).is_absolute() {
            rest
        } else {
            // The base is a name, not a pattern.
            format!("{}/{}", escaped(&base.to_string_lossy()), rest.trim_start_matches("./"))
        };
        // `src/**` means the folder too, so that it can be listed.
        if let Some(folder) = whole.strip_suffix("/**")
            && !folder.contains(['*', '?', '[', '{'])
        {
            compiled.push(PathPattern::Below(PathBuf::from(folder)));
            continue;
        }
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| fail(&error.kind().to_string()))?;
        compiled.push(PathPattern::Glob(glob.compile_matcher()));
    }
    Ok(compiled)
}
