//! Verifies digests of tarballs. sha512 or sha384 is required; sha1 alone is not accepted.

use crate::error::{InstallCode, PackageError, Result};
use pijs_protocol::guard;
use ssri::{Algorithm, Integrity, IntegrityOpts};

/// Checks `bytes` against the digest of a registry or lock file and returns their sha512 in SRI form.
///
/// If there are several digests, the strongest algorithm decides, even if a weaker digest matches.
pub(crate) fn verify(subject: &str, bytes: &[u8], integrity: Option<&str>) -> Result<String> {
    let refuse = |why: String| PackageError::new(InstallCode::Integrity, subject, why);
    let text = integrity.map(str::trim).filter(|text| !text.is_empty());
    if text.is_none() && !guard!(IntegrityPresent) {
        return Ok(sha512(bytes));
    }
    let text = text.ok_or_else(|| {
        refuse("the registry gives no sha512 for it".to_owned())
            .help("sha1 alone can be forged; ask the registry's operator, or publish the package again")
    })?;
    let expected: Integrity = text.parse().map_err(|_| refuse("its integrity cannot be read".to_owned()))?;
    let strong = matches!(expected.pick_algorithm(), Algorithm::Sha512 | Algorithm::Sha384);
    if !strong && guard!(IntegrityStrength) {
        return Err(refuse("its integrity is weaker than sha384".to_owned())
            .help("ask the registry's operator, or publish the package again"));
    }
    if expected.check(bytes).is_err() && guard!(IntegrityMatch) {
        return Err(refuse("the downloaded bytes do not match the registry's digest".to_owned())
            .help("nothing was unpacked; try again, and if it stays, the registry or a proxy changed the file"));
    }
    Ok(sha512(bytes))
}

/// Returns the sha512 of bytes in the form `sha512-BASE64`.
pub(crate) fn sha512(bytes: &[u8]) -> String {
    IntegrityOpts::new().algorithm(Algorithm::Sha512).chain(bytes).result().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(algorithm: Algorithm, bytes: &[u8]) -> String {
        IntegrityOpts::new().algorithm(algorithm).chain(bytes).result().to_string()
    }

    #[test]
    fn the_strongest_digest_has_to_be_strong_and_has_to_match() {
        use Algorithm::{Sha1, Sha256, Sha384, Sha512};
        let (right, wrong) = (|algorithm| digest(algorithm, b"bytes"), |algorithm| digest(algorithm, b"other"));
        let checked = |integrity: Option<&str>| verify("x", b"bytes", integrity).map_err(|error| error.code);
        for taken in [right(Sha512), right(Sha384), format!(" {} ", right(Sha512))] {
            assert_eq!(checked(Some(&taken)), Ok(sha512(b"bytes")), "{taken}");
        }
        let several = format!("{} {}", wrong(Sha1), right(Sha512));
        assert_eq!(checked(Some(&several)), Ok(sha512(b"bytes")));
        for refused in [
            None,
            Some(String::new()),
            Some(" ".to_owned()),
            Some("sha512".to_owned()),
            Some(right(Sha1)),
            Some(right(Sha256)),
            Some(wrong(Sha512)),
            Some(wrong(Sha384)),
            Some(format!("{} {}", right(Sha1), wrong(Sha512))),
            Some(format!("{} {}", right(Sha384), wrong(Sha512))),
        ] {
            assert_eq!(checked(refused.as_deref()), Err(InstallCode::Integrity), "{refused:?}");
        }
    }

    #[test]
    fn a_digest_is_written_as_npm_does() {
        let empty = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==";
        assert_eq!(sha512(b""), empty);
    }
}
