//! Writes packages for tests.

use std::fs;
use std::path::Path;

/// Writes files below a folder, each with its text.
pub(crate) fn write_package<'a>(folder: &Path, files: impl IntoIterator<Item = &'a (&'a str, &'a str)>) {
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }
}
