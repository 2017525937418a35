//! Parses the name of a package on the command line or in settings into its identity.
//!
//! On the command line a bare word is an npm name (`pi install pi-ttsr`); in settings pi treats it as a path. Hence there are two
//! constructors: [`PackageSource::parse`] and [`PackageSource::from_settings`]. Sources that PiJS writes into settings mean the
//! same to both.

use crate::error::{InstallCode, PackageError, Result};
use crate::git::GitSource;
use crate::names::check;
use nodejs_semver::{Range, Version};
use pijs_protocol::guard;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// A package name that npm would accept for a new package.
///
/// Lower-case ASCII, URL-safe, at most 214 bytes, with an optional scope. A name that passes is safe as a path below
/// `node_modules` on every file system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageName(String);

impl PackageName {
    /// Checks a name; fails with `IN_NAME`.
    pub fn parse(name: &str) -> Result<Self> {
        let refuse = |why: &str| Err(PackageError::new(InstallCode::Name, printable(name), why.to_owned()));
        if (name.is_empty() || name.len() > 214) && guard!(PackagesNameForm) {
            return refuse("a package name has 1 to 214 characters");
        }
        let parts: Vec<&str> = match name.strip_prefix('@') {
            Some(scoped) => match scoped.split_once('/') {
                Some((scope, rest)) => vec![scope, rest],
                None => return refuse("a scoped name has the form @scope/name"),
            },
            None => vec![name],
        };
        for part in &parts {
            if !guard!(PackagesNameForm) {
                break;
            }
            if part.is_empty() || part.starts_with(['.', '_', '-']) {
                return refuse("each part of a package name starts with a letter or a digit");
            }
            let odd = part.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "-._~".contains(*c)));
            if let Some(odd) = odd {
                let why = format!("a package name has only a-z, 0-9 and - . _ ~, not U+{:04X}", u32::from(odd));
                return refuse(&why);
            }
            if matches!(*part, "node_modules" | "favicon.ico" | "constructor" | "prototype") {
                return refuse("the name is reserved");
            }
            check(part).map_err(|(code, why)| PackageError::new(code, printable(name), why))?;
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the name as written, `@scope/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `@scope`, if the name has a scope.
    pub fn scope(&self) -> Option<&str> {
        self.0
            .starts_with('@')
            .then(|| self.0.split_once('/').expect("`parse` checked that a scope ends with a slash").0)
    }

    /// Returns whether the host supplies the package to every extension: pi's own packages under both scopes, and typebox.
    ///
    /// Such packages are never fetched, and a package that ships its own copy of one is refused.
    pub fn is_host_supplied(&self) -> bool {
        matches!(self.0.as_str(), "typebox" | "@sinclair/typebox")
            || ["@mariozechner/pi-", "@earendil-works/pi-"].iter().any(|prefix| self.0.starts_with(prefix))
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Requested version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRequest {
    /// A semver range, or an exact version.
    Range(Range),
    /// A dist-tag; `latest` if no version was written.
    Tag(String),
}

impl VersionRequest {
    /// Parses the text after the `@`; returns `None` if it is neither a range nor a tag.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Self::Tag("latest".to_owned()));
        }
        if let Ok(range) = Range::parse(text) {
            return Some(Self::Range(range));
        }
        let tag = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        tag.then(|| Self::Tag(text.to_owned()))
    }
}

/// Source of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageSource {
    /// A package of an npm registry.
    Npm {
        /// Name of the package.
        name: PackageName,
        /// Text after the `@`, as the user wrote it; empty if there is none.
        range: String,
    },
    /// A git repository.
    Git(GitSource),
    /// A file or folder as an absolute path; it is used in place.
    Path(PathBuf),
}

impl PackageSource {
    /// Reads a source from the command line; paths are relative to `cwd`, `~` is `home`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pijs_packages::PackageSource;
    /// use std::path::Path;
    ///
    /// let at = |text| PackageSource::parse(text, Path::new("/projects"), Path::new("/home/me")).map(|source| source.identity());
    /// assert_eq!(at("pi-ttsr@^1").unwrap(), "npm:pi-ttsr");
    /// assert_eq!(at("./mine").unwrap(), "path:/projects/mine");
    /// assert_eq!(at("git:example.org/a/b@v1").unwrap(), "git:example.org/a/b");
    /// assert!(at("git:ext::sh").is_err());
    /// ```
    pub fn parse(text: &str, cwd: &Path, home: &Path) -> Result<Self> {
        let text = text.trim();
        if let Some(git) = GitSource::parse(text) {
            return git.map(Self::Git);
        }
        if let Some(spec) = text.strip_prefix("npm:") {
            return parse_npm(spec);
        }
        if looks_like_path(text) { Ok(Self::Path(local_path(text, cwd, home))) } else { parse_npm(text) }
    }

    /// Reads a source from a settings file, where text without a prefix is a path relative to the file's folder.
    pub fn from_settings(text: &str, settings_dir: &Path, home: &Path) -> Result<Self> {
        let text = text.trim();
        if let Some(git) = GitSource::parse(text) {
            return git.map(Self::Git);
        }
        match text.strip_prefix("npm:") {
            Some(spec) => parse_npm(spec),
            None => Ok(Self::Path(local_path(text, settings_dir, home))),
        }
    }

    /// Returns the identity by which two sources are the same package: the npm name, or the resolved path.
    pub fn identity(&self) -> String {
        match self {
            Self::Npm { name, .. } => format!("npm:{name}"),
            Self::Git(git) => git.identity(),
            Self::Path(path) => format!("path:{}", path.display()),
        }
    }

    /// Formats the source for a settings file in `settings_dir`.
    pub fn to_settings(&self, settings_dir: &Path) -> String {
        match self {
            Self::Npm { name, range } if range.is_empty() => format!("npm:{name}"),
            Self::Npm { name, range } => format!("npm:{name}@{range}"),
            Self::Git(git) => git.to_settings(),
            Self::Path(path) => relative(settings_dir, path),
        }
    }
}

impl fmt::Display for PackageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Npm { name, range } if range.is_empty() => write!(f, "npm:{name}"),
            Self::Npm { name, range } => write!(f, "npm:{name}@{range}"),
            Self::Git(git) => f.write_str(&git.to_settings()),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

fn parse_npm(spec: &str) -> Result<PackageSource> {
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(index, _)| index);
    let (name, range) = match at {
        Some(at) => (&spec[..at], spec[at + 1..].trim()),
        None => (spec, ""),
    };
    let name = PackageName::parse(name).map_err(|error| {
        error.help("write npm:NAME, npm:@SCOPE/NAME or npm:NAME@RANGE for a package, ./NAME for a folder")
    })?;
    if VersionRequest::parse(range).is_none() {
        return Err(PackageError::new(
            InstallCode::Source,
            format!("npm:{name}@{range}"),
            "not a version, range or tag",
        )
        .help("examples: @1.2.3, @^1.2, @latest"));
    }
    Ok(PackageSource::Npm { name, range: range.to_owned() })
}

fn looks_like_path(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.starts_with(['.', '/', '~'])
        || text.contains('\\')
        || (bytes.len() > 1 && bytes[1] == b':' && bytes[0].is_ascii_alphabetic())
        || (!text.starts_with('@') && text.contains('/'))
}

/// Resolves a path as pi does: unusual spaces become blanks, `~` is the home folder, `..` is resolved textually.
pub(crate) fn local_path(text: &str, base: &Path, home: &Path) -> PathBuf {
    let text: String = text
        .chars()
        .map(|c| {
            if matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}') { ' ' } else { c }
        })
        .collect();
    let joined = match text.strip_prefix('~') {
        Some(rest) => home.join(rest.trim_start_matches('/')),
        None => base.join(&text),
    };
    let mut clean = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// Returns `to` relative to `from`, with a leading `.`, so that it reads as a path everywhere.
fn relative(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut parts = vec!["..".to_owned(); from.len() - shared];
    if parts.is_empty() {
        parts.push(".".to_owned());
    }
    parts.extend(to[shared..].iter().map(|component| component.as_os_str().to_string_lossy().into_owned()));
    let mut text = parts.join("/");
    if text.ends_with(char::is_whitespace) {
        // Blanks around a source in settings are trimmed; the slash protects blanks at the end of the name.
        text.push('/');
    }
    text
}

/// Returns whether the text after the `@` allows `version`, without a request to a registry.
pub(crate) fn allows(range: &str, version: &Version) -> bool {
    match VersionRequest::parse(range) {
        Some(VersionRequest::Range(range)) => range.satisfies(version),
        Some(VersionRequest::Tag(_)) => true,
        None => false,
    }
}

/// Escapes untrusted text, so that it is safe to print on one line.
pub(crate) fn printable(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(120)
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect();
    if out.is_empty() {
        out.push_str("\"\"");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<PackageSource> {
        PackageSource::parse(text, Path::new("/projects/app"), Path::new("/home/me"))
    }

    #[test]
    fn a_name_is_valid_for_npm_and_every_file_system() {
        for (name, scope) in [
            ("a", None),
            ("pi-ttsr", None),
            ("a.b_c~d-1", None),
            ("1st", None),
            ("@corp/tool", Some("@corp")),
            ("@a/b", Some("@a")),
            (&"n".repeat(214), None),
        ] {
            let parsed = PackageName::parse(name).expect(name);
            assert_eq!((parsed.as_str(), parsed.scope(), &*parsed.to_string()), (name, scope, name));
        }
        for name in [
            "",
            &"n".repeat(215),
            "../x",
            "a/b",
            "a\\b",
            "@corp",
            "@corp/",
            "@/tool",
            "@corp/tool/x",
            "@corp/../x",
            "@.corp/x",
            ".bin",
            "_x",
            "-x",
            "--upload-pack",
            "__proto__",
            "constructor",
            "prototype",
            "node_modules",
            "@corp/node_modules",
            "favicon.ico",
            "Upper",
            "two words",
            "a\0b",
            "a:b",
            "a@1",
            "\u{430}bc",
        ] {
            assert_eq!(PackageName::parse(name).map_err(|error| error.code), Err(InstallCode::Name), "{name:?}");
        }
    }

    #[test]
    fn host_supplied_packages_are_recognised_by_their_full_names() {
        let supplied = |name: &str| PackageName::parse(name).expect(name).is_host_supplied();
        for name in ["typebox", "@sinclair/typebox", "@mariozechner/pi-tui", "@earendil-works/pi-ai"] {
            assert!(supplied(name), "{name}");
        }
        for name in ["typebox-x", "pi-tui", "@mariozechner/tool", "@other/pi-tui", "@sinclair/typebox-x"] {
            assert!(!supplied(name), "{name}");
        }
    }

    #[test]
    fn a_source_on_the_command_line_is_a_package_a_repository_or_a_path() {
        for (text, identity, settings) in [
            ("pi-ttsr", "npm:pi-ttsr", "npm:pi-ttsr"),
            (" npm:pi-ttsr@^1.2 ", "npm:pi-ttsr", "npm:pi-ttsr@^1.2"),
            ("@corp/tool@latest", "npm:@corp/tool", "npm:@corp/tool@latest"),
            ("npm:@corp/tool", "npm:@corp/tool", "npm:@corp/tool"),
            ("git:example.org/a/b@v1", "git:example.org/a/b", "git:example.org/a/b@v1"),
            ("./mine", "path:/projects/app/mine", "../projects/app/mine"),
            ("../mine", "path:/projects/mine", "../projects/mine"),
            ("a/b/../c", "path:/projects/app/a/c", "../projects/app/a/c"),
            ("/opt/x", "path:/opt/x", "../opt/x"),
            ("~/x", "path:/home/me/x", "../home/me/x"),
            ("/settings", "path:/settings", "."),
            ("/settings/x ", "path:/settings/x", "./x"),
            ("c:x", "path:/projects/app/c:x", "../projects/app/c:x"),
            ("a\\b", "path:/projects/app/a\\b", "../projects/app/a\\b"),
        ] {
            let source = parsed(text).expect(text);
            assert_eq!(source.identity(), identity, "{text}");
            assert_eq!(source.to_settings(Path::new("/settings")), settings, "{text}");
            let again =
                PackageSource::from_settings(settings, Path::new("/settings"), Path::new("/home/me")).expect(settings);
            assert_eq!(again, source, "{text}");
            let shown =
                if let PackageSource::Path(path) = &source { path.display().to_string() } else { settings.to_owned() };
            assert_eq!(source.to_string(), shown);
        }
        for (text, code) in [
            ("npm:../x", InstallCode::Name),
            ("1:x", InstallCode::Name),
            (":x", InstallCode::Name),
            ("npm:a@file:../x", InstallCode::Source),
            ("npm:a@git+https://example.org/x", InstallCode::Source),
            ("a@;x", InstallCode::Source),
            ("git:ext::sh", InstallCode::Source),
        ] {
            assert_eq!(parsed(text).map_err(|error| error.code), Err(code), "{text}");
        }
    }

    #[test]
    fn a_blank_at_the_end_of_a_name_stays() {
        assert_eq!(relative(Path::new("/a"), Path::new("/a/b ")), "./b /");
        assert_eq!(local_path("b\u{a0}c", Path::new("/a"), Path::new("/h")), Path::new("/a/b c"));
    }

    #[test]
    fn a_range_allows_its_versions_and_a_tag_all() {
        let version = Version::parse("1.2.3").expect("a version");
        for (range, allowed) in
            [("", true), ("latest", true), ("^1", true), ("1.2.3", true), ("^2", false), ("1.2.4", false), ("/", false)]
        {
            assert_eq!(allows(range, &version), allowed, "{range}");
        }
    }

    #[test]
    fn printed_text_stays_on_its_line() {
        assert_eq!(printable("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(printable(""), "\"\"");
        assert_eq!(printable(&"x".repeat(121)).len(), 120);
    }
}
