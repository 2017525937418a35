//! Path patterns of a scope, matched against absolute, normalised paths.

use super::{CompiledScope, ScopeError};
use crate::places::{Places, normal};
use globset::{GlobBuilder, GlobMatcher};
use std::path::{Path, PathBuf};

/// Maximum length of a pattern in bytes, which bounds the cost of compiling it.
pub(super) const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum number of alternatives (`{a,b}`) in a pattern.
pub(super) const MAX_ALTERNATIVES: usize = 8;

/// A path pattern.
#[derive(Debug, Clone)]
pub(super) enum PathPattern {
    /// A file, or a folder and everything in it.
    Below(PathBuf),
    Glob(GlobMatcher),
}

impl CompiledScope {
    /// Creates a scope of exactly these paths (folders with their content).
    pub(crate) fn exactly(paths: Vec<PathBuf>) -> Self {
        Self { paths: Some(paths.into_iter().map(PathPattern::Below).collect()), ..Self::default() }
    }

    /// Returns whether the scope covers an absolute, normalised path.
    pub fn path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                PathPattern::Below(folder) => path.starts_with(folder),
                PathPattern::Glob(glob) => glob.is_match(path),
            })
        })
    }

    /// Returns the folder of each pattern that covers a path; the folder is `None` for a pattern with wildcards, and for a scope
    /// without paths.
    pub(crate) fn patterns_at<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = Option<&'a Path>> {
        let anywhere = self.paths.is_none().then_some(None);
        let patterns = self.paths.iter().flatten().filter_map(move |pattern| match pattern {
            PathPattern::Below(folder) => path.starts_with(folder).then_some(Some(folder.as_path())),
            PathPattern::Glob(glob) => glob.is_match(path).then_some(None),
        });
        anywhere.into_iter().chain(patterns)
    }

    /// Returns whether the scope restricts paths.
    pub(crate) fn has_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Returns whether a pattern without wildcards names exactly this path, which a file that runs later requires.
    pub fn names_path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| matches!(pattern, PathPattern::Below(named) if named == path))
        })
    }

    /// Returns whether a pattern that covers `path` names `settings`, the file or folder of one program among the settings of the
    /// home (`~/.config/x/**`), rather than a folder of many.
    pub(crate) fn names_settings(&self, path: &Path, settings: &Path) -> bool {
        self.paths.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                PathPattern::Below(folder) => path.starts_with(folder) && folder.starts_with(settings),
                PathPattern::Glob(glob) => glob.is_match(path) && begins_with_name(glob.glob().glob(), settings),
            })
        })
    }
}

/// Escapes an absolute path as a pattern for a grant.
pub(crate) fn escaped_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains(['*', '?', '[', '{']) { escaped(&text) } else { text.into_owned() }
}

/// Returns whether a path pattern begins with the folder of `settings`, and with at least the first letter of its name.
fn begins_with_name(pattern: &str, settings: &Path) -> bool {
    let (Some(folder), Some(name)) = (settings.parent(), settings.file_name()) else { return false };
    let folder = escaped(&folder.to_string_lossy());
    let rest = pattern.strip_prefix(folder.as_str()).and_then(|rest| rest.strip_prefix('/'));
    let first = rest.and_then(|rest| rest.chars().next());
    first.is_some_and(|first| name.to_string_lossy().starts_with(first))
}

/// Escapes a name in a pattern. The library's escape function leaves backslashes alone, which would escape the brackets that it
/// adds.
fn escaped(name: &str) -> String {
    globset::escape(name).replace('\\', "\\\\")
}

/// Compiles a pattern, which may expand to several folders.
pub(super) fn compile_path(
    pattern: &str,
    places: &Places,
    package_root: Option<&Path>,
) -> Result<Vec<PathPattern>, ScopeError> {
    let fail = |problem: &str| ScopeError { pattern: pattern.to_owned(), problem: problem.to_owned() };
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(fail("too long"));
    }
    if pattern.contains('\0') {
        return Err(fail("contains a null byte"));
    }
    if pattern.matches('{').count() > MAX_ALTERNATIVES {
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
        // `src/**` covers the folder itself, so that it can be listed.
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
