//! What holds of every run of a program, whatever it met.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

/// Output of a program, as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It ended by itself; if it failed it said why.
pub(crate) fn in_order(output: &Output, case: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.signal(), None, "{case}: {stderr}");
    assert!(!stderr.contains("panicked"), "{case}: {stderr}");
    assert!(output.status.success() || !stderr.trim().is_empty(), "{case}: it failed without a word");
}
