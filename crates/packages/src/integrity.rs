//! Digests of tarballs. sha512 or sha384 is needed; sha1 alone is no integrity.

use crate::error::{InstallCode, PackageError, Result};
use pijs_protocol::guard;
use ssri::{Algorithm, Integrity, IntegrityOpts};

/// Checks `bytes` against what a registry or lock file says; answers with their sha512 in SRI form.
///
/// Of several digests the strongest algorithm decides, and a weaker one that matches does not help.
pub(crate) fn verify(subject: &str, bytes: &[u8], integrity: Option<&str>) -> Result<String> {
    let refuse = |why: String| PackageError::new(InstallCode::Integrity, subject, why);
    let text = integrity.map(str::trim).filter(|text| !text.is_empty());
    if text.is_none() && !guard::is_up("integrity.present") {
        return Ok(sha512(bytes));
    }
    let text = text.ok_or_else(|| {
        refuse("the registry gives no sha512 for it".to_owned())
            .help("sha1 alone can be forged; ask the registry's operator, or publish the package again")
    })?;
    let expected: Integrity = text.parse().map_err(|_| refuse("its integrity cannot be read".to_owned()))?;
    let strong = matches!(expected.pick_algorithm(), Algorithm::Sha512 | Algorithm::Sha384);
    if !strong && guard::is_up("integrity.strength") {
        return Err(refuse("its integrity is weaker than sha384".to_owned())
            .help("ask the registry's operator, or publish the package again"));
    }
    if expected.check(bytes).is_err() && guard::is_up("integrity.match") {
        return Err(refuse("the downloaded bytes do not match the registry's digest".to_owned())
            .help("nothing was unpacked; try again, and if it stays, the registry or a proxy changed the file"));
    }
    Ok(sha512(bytes))
}

/// `sha512-BASE64`.
pub(crate) fn sha512(bytes: &[u8]) -> String {
    IntegrityOpts::new().algorithm(Algorithm::Sha512).chain(bytes).result().to_string()
}
