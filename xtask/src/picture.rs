//! Draws `docs/demo.svg`, the picture in the README, from the output of `pi demo` while a rule stops a reply.

use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "docs/demo.svg";

/// Width of a character, in pixels.
const CHARACTER: usize = 8;
/// Height of a line, in pixels.
const LINE: usize = 19;
/// Margin around the text, in pixels.
const MARGIN: usize = 18;

/// The first line that the picture shows.
const FIRST: &str = "the model streams:";
/// Beginning of the first line after the second reply, which the picture does not show.
const LAST: &str = "hostcalls:";

/// Runs the demo and writes the picture. `pi` is the program to run; without it, cargo builds one.
pub fn write(pi: Option<&Path>) -> Result<PathBuf> {
    let mut command = match pi {
        Some(pi) => Command::new(pi),
        None => {
            let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
            cargo.args(["run", "--quiet", "--release", "--bin", "pi", "--"]);
            cargo
        }
    };
    let output = command.arg("demo").current_dir(crate::root()).output().context("running pi demo")?;
    ensure!(output.status.success(), "pi demo failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let file = crate::root().join(FILE);
    fs::write(&file, drawing(&String::from_utf8(output.stdout)?)).with_context(|| format!("writing {FILE}"))?;
    Ok(file)
}

/// Returns the lines of the demo that the picture shows.
pub fn shown(printed: &str) -> Vec<&str> {
    let lines = printed.lines().skip_while(|line| *line != FIRST).take_while(|line| !line.starts_with(LAST));
    let mut lines: Vec<&str> = lines.collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

/// Draws printed lines as a terminal window.
pub fn drawing(printed: &str) -> String {
    let lines = shown(printed);
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let (width, height) = (columns * CHARACTER + 2 * MARGIN, (lines.len() + 2) * LINE + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>pi demo: a rule stops a reply in mid-sentence, and the model answers again</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"13\" xml:space=\"preserve\">\n"
    );
    text(&mut svg, 0, "#8b949e", "$ pi demo");
    let mut is_injected = false;
    for (number, line) in lines.iter().enumerate() {
        is_injected = line.starts_with("injected") || is_injected && line.starts_with("  |");
        let colour = match line {
            _ if is_injected => "#e3b341",
            line if line.starts_with("  |") => "#e6edf3",
            line if line.starts_with("the next delta") || line.starts_with("  ") => "#ff7b72",
            _ => "#8b949e",
        };
        text(&mut svg, number + 2, colour, line);
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Adds a line of text.
fn text(svg: &mut String, row: usize, colour: &str, line: &str) {
    if line.is_empty() {
        return;
    }
    let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let y = MARGIN + LINE * row + CHARACTER;
    writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\">{line}</text>").expect("a string takes text");
}
