//! Checks that apply to every run of a program, whatever fault occurs.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

/// Decodes the output of a program.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks that the program exited by itself, with a message if it failed.
pub(crate) fn in_order(output: &Output, case: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.signal(), None, "{case}: {stderr}");
    assert!(!stderr.contains("panicked"), "{case}: {stderr}");
    assert!(output.status.success() || !stderr.trim().is_empty(), "{case}: it failed without a word");
}
