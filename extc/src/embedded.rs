//! The prebuilt artifacts that a release embeds: compiled host modules and supplied packages, so that the first start neither
//! fetches nor compiles.
//!
//! `cargo xtask release` fills a cache, and `build.rs` makes its files part of the program; a development build embeds nothing.
//! File names are those of the [cache](crate::Cache): a key covers everything that an artifact was made from, so that an artifact
//! of other sources is never found. The bytes are part of the program and need no MAC.

use crate::cache::Key;
use pijs_artifact::Verified;
use std::sync::Arc;

/// Name and content of each embedded file. A `static`, because each use of a `const` would copy megabytes.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Returns the embedded artifact of a key.
pub(crate) fn artifact(key: &Key) -> Option<Arc<Verified>> {
    read(file(FILES, &format!("{}.artifact", key.hex()))?)
}

/// Returns the embedded data of a key.
pub(crate) fn data(key: &Key) -> Option<&'static [u8]> {
    file(FILES, &format!("{}.data", key.hex()))
}

/// Iterates the embedded tarballs by file name: `NAME@VERSION.tgz`, with `+` for `/`.
pub fn packages() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().copied().filter(|(name, _)| name.ends_with(".tgz"))
}

fn file(files: &[(&str, &'static [u8])], wanted: &str) -> Option<&'static [u8]> {
    files.iter().find(|(name, _)| *name == wanted).map(|(_, bytes)| *bytes)
}

/// Decodes an embedded artifact. Returns `None` for an undecodable one, so that the caller compiles again.
fn read(bytes: &'static [u8]) -> Option<Arc<Verified>> {
    let read = Verified::embedded(bytes, &pijs_engine::engine_build());
    read.inspect_err(|error| tracing::warn!(%error, "the embedded modules are unusable; compiling them"))
        .ok()
        .map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_full_name() {
        let files: &[(&str, &'static [u8])] = &[("ab.artifact", b"code"), ("ab.data", b"words")];
        assert_eq!(file(files, "ab.data"), Some(&b"words"[..]));
        assert_eq!(file(files, "b.data"), None);
    }

    #[test]
    fn an_undecodable_artifact_is_treated_as_absent() {
        let artifact = crate::host_modules(None).unwrap_or_else(|failure| panic!("{failure}"));
        let bytes: &'static [u8] = pijs_artifact::encode(artifact.artifact()).leak();
        assert_eq!(read(bytes).map(|read| read.artifact().clone()), Some(artifact.artifact().clone()));
        assert!(read(&bytes[..bytes.len() / 2]).is_none());
    }
}
