//! Measures the time in which a browser displays the page of a tape.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Number of runs of each page; the fastest counts, since other programs share the machine.
const RUNS: usize = 3;

/// Times to display an empty page, and the page of the tape.
pub(super) struct Shown {
    pub(super) empty: Duration,
    pub(super) page: Duration,
}

/// Returns the first browser on the path, if any.
pub(super) fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let named = ["chromium", "chromium-browser", "google-chrome"];
    folders.iter().flat_map(|folder| named.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// Opens a page in a headless browser, and waits until its script has listed all `rows`.
pub(super) fn show(browser: &Path, folder: &Path, page: &Path, rows: usize) -> Result<Shown> {
    let empty = folder.join("empty.html");
    fs::write(&empty, "<!doctype html><title>empty</title>")?;
    let dumped = |page: &Path| -> Result<(Duration, String)> {
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let begin = Instant::now();
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &profile])
            .args(["--window-size=1000,900", "--dump-dom"])
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .with_context(|| format!("starting {}", browser.display()))?;
        ensure!(output.status.success(), "the browser failed: {}", output.status);
        Ok((begin.elapsed(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    // The first start creates a profile, which takes longer.
    dumped(&empty)?;
    let mut shown = Shown { empty: Duration::MAX, page: Duration::MAX };
    for _ in 0..RUNS {
        shown.empty = shown.empty.min(dumped(&empty)?.0);
        let (time, document) = dumped(page)?;
        let count = format!("{rows} of {rows}");
        ensure!(document.contains(&count), "the page does not list {count} rows");
        shown.page = shown.page.min(time);
    }
    Ok(shown)
}
