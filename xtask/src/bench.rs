//! Compares streamed rules with equal work in JavaScript: as a table, and as charts over the reply's length and the number of
//! rules.
//!
//! ```text
//! work file (conditions, reply) ─┬─ crates/rules/benches/replies.rs    this engine, release build
//!                                ├─ crates/rules/benches/replies.mjs   under Node: plain expressions, tested on all text so far
//!                                └─ the same file under bun            TtsrManager of an installed oh-my-pi
//! ```
//!
//! No rule matches, which is the usual reply and the most work. All programs read the same deltas of eight characters.

use anyhow::{Context, Result, bail};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of rules and reply length in bytes, for each row of the table.
const PAIRS: &[(usize, usize)] = &[(20, 32 << 10), (200, 32 << 10), (20, 256 << 10)];
/// Reply lengths in the first chart, in KiB; [`CHART_RULES`] rules read each reply.
const LENGTHS: &[usize] = &[1, 4, 16, 32, 64, 128, 256, 1_024, 4_096];
const CHART_RULES: usize = 20;
/// Numbers of rules in the second chart; each set reads [`CHART_LENGTH`] bytes.
const COUNTS: &[usize] = &[1, 10, 20, 100, 200, 1_000, 10_000];
const CHART_LENGTH: usize = 32 << 10;
/// Folder of the charts, relative to the workspace.
const CHARTS: &str = "docs/benchmarks";
/// Line colors: this engine's, then the peers'.
const COLORS: [RGBColor; 3] = [RGBColor(0x1a, 0x5f, 0xb4), RGBColor(0x77, 0x76, 0x7b), RGBColor(0xc6, 0x46, 0x00)];
/// Number of characters in a delta.
const STEP: usize = 8;

/// Selects the measurements.
pub struct Options {
    /// Whether to measure equal work under Node too.
    pub node: bool,
    /// Folder with the `node_modules` in which oh-my-pi is installed; `None` to leave it out.
    pub omp: Option<PathBuf>,
    /// Seconds after which a peer is stopped within a reply.
    pub seconds: u64,
    /// Whether to measure and write charts.
    pub charts: bool,
}

/// The input of one measurement.
#[derive(Serialize)]
struct Work {
    conditions: Vec<String>,
    reply: String,
    step: usize,
    hit: String,
}

/// The result of one measurement.
#[derive(Clone, Copy, Deserialize)]
struct Figures {
    /// Total time for the deltas that were read, in milliseconds.
    ms: f64,
    /// Fraction of the reply that was read.
    share: f64,
    #[serde(default)]
    build_ms: f64,
}

impl Figures {
    fn is_whole(&self) -> bool {
        self.share >= 1.0
    }
}

/// Number of rules and reply length in bytes.
type Size = (usize, usize);

/// A program that does equal work.
struct Peer {
    name: String,
    program: PathBuf,
    /// Arguments that follow the work file and the seconds.
    arguments: Vec<PathBuf>,
    figures: BTreeMap<Size, Figures>,
}

/// Measures, prints the table, and writes the charts on request. Returns the written paths.
///
/// # Errors
///
/// Fails if a build fails, a requested peer is missing or fails, or a file cannot be written.
pub fn run(options: &Options, print: &mut dyn FnMut(&str)) -> Result<Vec<PathBuf>> {
    let mut peers = Vec::new();
    if options.node {
        peers.push(node()?);
    }
    match &options.omp {
        Some(folder) => peers.push(oh_my_pi(folder)?),
        None if options.node => print(
            "oh-my-pi is not compared: give `--omp DIR`, a folder in which `npm install @oh-my-pi/pi-coding-agent @oven/bun-linux-x64` was run",
        ),
        None => {}
    }
    let by_length: Vec<Size> = LENGTHS.iter().map(|kib| (CHART_RULES, kib << 10)).collect();
    let by_count: Vec<Size> = COUNTS.iter().map(|&rules| (rules, CHART_LENGTH)).collect();
    let mut sizes = PAIRS.to_vec();
    if options.charts {
        sizes.extend(by_length.iter().chain(&by_count));
    }
    // Ordered by work, so that a stopped peer gets no larger work.
    sizes.sort_by_key(|(rules, bytes)| (rules * bytes, *rules));
    sizes.dedup();

    let target = cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory;
    let folder = PathBuf::from(target).join("replies");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let file = |(rules, bytes): Size| folder.join(format!("{rules}-{bytes}.json"));
    for &size in &sizes {
        fs::write(file(size), serde_json::to_vec(&work(size))?).context("writing a work file")?;
    }
    let files: Vec<PathBuf> = sizes.iter().map(|&size| file(size)).collect();
    let ours: BTreeMap<Size, Figures> = sizes.iter().copied().zip(own(&files)?).collect();
    for peer in &mut peers {
        for &size in &sizes {
            // Cost grows with both numbers, so larger work than the stopped one is skipped.
            let is_within = |&(rules, bytes): &Size| rules <= size.0 && bytes <= size.1;
            let is_hopeless = peer.figures.iter().any(|(other, figures)| !figures.is_whole() && is_within(other));
            if !is_hopeless {
                let figures = peer.measure(&file(size), options.seconds)?;
                peer.figures.insert(size, figures);
            }
        }
    }
    print(&table(&sizes, &ours, &peers));
    if !options.charts {
        return Ok(Vec::new());
    }
    let charts = crate::root().join(CHARTS);
    fs::create_dir_all(&charts)?;
    let draw = |name: &str, title: &str, axis: &str, sizes: &[Size], value: &dyn Fn(Size) -> f64| {
        let series = |figures: &BTreeMap<Size, Figures>| {
            let whole = sizes.iter().filter_map(|size| {
                figures.get(size).filter(|found| found.is_whole()).map(|found| (value(*size), found.ms))
            });
            whole.collect::<Vec<_>>()
        };
        let mut lines = vec![("PiJS".to_owned(), series(&ours))];
        lines.extend(peers.iter().map(|peer| (peer.name.clone(), series(&peer.figures))));
        let path = charts.join(name);
        fs::write(&path, chart(title, axis, &lines)?)?;
        Ok::<_, anyhow::Error>(path)
    };
    Ok(vec![
        draw("reply-length.svg", "20 rules, replies of 1 KiB to 4 MiB", "KiB of the reply", &by_length, &|(
            _,
            bytes,
        )| {
            (bytes >> 10) as f64
        })?,
        draw("rules.svg", "1 to 10,000 rules, a reply of 32 KiB", "rules", &by_count, &|(rules, _)| rules as f64)?,
    ])
}

/// Returns rules about lines, and a reply of code in which each line begins like a forbidden line.
fn work((rules, bytes): Size) -> Work {
    let conditions = (0..rules).map(|number| format!(r"(?m)^\s*(?:const|let)\s+forbidden_{number}\s*="));
    let mut reply = String::with_capacity(bytes + 100);
    for number in 0.. {
        if reply.len() >= bytes {
            break;
        }
        let _ = writeln!(
            reply,
            "\tconst total_{number} = add(total, sizes[{number}]); // Größe {number}, which is not forbidden"
        );
    }
    reply.truncate(reply.floor_char_boundary(bytes));
    Work { conditions: conditions.collect(), reply, step: STEP, hit: "\nlet forbidden_0 = 1".to_owned() }
}

/// Runs this engine.
fn own(files: &[PathBuf]) -> Result<Vec<Figures>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["bench", "--locked", "-p", "pijs-rules", "--bench", "replies", "--"]).args(files);
    let lines = output(&mut cargo)?;
    let figures = lines.lines().map(|line| serde_json::from_str(line).context("reading a line of replies.rs"));
    let figures: Vec<Figures> = figures.collect::<Result<_>>()?;
    if figures.len() != files.len() {
        bail!("replies.rs printed {} lines for {} files", figures.len(), files.len());
    }
    Ok(figures)
}

impl Peer {
    fn measure(&self, file: &Path, seconds: u64) -> Result<Figures> {
        let script = crate::root().join("crates/rules/benches/replies.mjs");
        let mut command = Command::new(&self.program);
        command.arg(script).arg(file).arg(seconds.to_string()).args(&self.arguments);
        // oh-my-pi writes logs below the home folder.
        command.env("HOME", file.parent().expect("the file is in a folder"));
        serde_json::from_str(output(&mut command)?.trim())
            .with_context(|| format!("reading the output of {}", self.name))
    }
}

fn node() -> Result<Peer> {
    let version = output(Command::new("node").arg("--version")).context("`--against-node` needs `node` on the path")?;
    let name = format!("Node {}", version.trim().trim_start_matches('v').split('.').next().unwrap_or_default());
    Ok(Peer { name, program: "node".into(), arguments: Vec::new(), figures: BTreeMap::new() })
}

/// Returns oh-my-pi's engine in an installation, run with the bun installed next to it or else the one on the path.
fn oh_my_pi(folder: &Path) -> Result<Peer> {
    let folder = fs::canonicalize(folder).with_context(|| format!("opening {}", folder.display()))?;
    let modules = folder.join("node_modules");
    let manifest = modules.join("@oh-my-pi/pi-coding-agent/package.json");
    let manifest = fs::read(&manifest).with_context(|| {
        format!(
            "{} is not there: run `npm install @oh-my-pi/pi-coding-agent` in {}",
            manifest.display(),
            folder.display()
        )
    })?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest)?;
    let version = manifest["version"].as_str().unwrap_or_default();
    let installed = fs::read_dir(modules.join("@oven")).into_iter().flatten().flatten();
    let program = installed.map(|package| package.path().join("bin/bun")).find(|bun| bun.exists());
    let program = program.unwrap_or_else(|| "bun".into());
    let bun = output(Command::new(&program).arg("--version"))
        .context("oh-my-pi needs bun: run `npm install @oven/bun-linux-x64` beside it")?;
    let name = format!("oh-my-pi {version}, bun {}", bun.trim());
    Ok(Peer { name, program, arguments: vec![folder], figures: BTreeMap::new() })
}

fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(std::process::Stdio::inherit()).output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn table(sizes: &[Size], ours: &BTreeMap<Size, Figures>, peers: &[Peer]) -> String {
    let mut table = "| rules | reply | built | PiJS | MB/s |".to_owned();
    peers.iter().for_each(|peer| {
        let _ = write!(table, " {} | / PiJS |", peer.name);
    });
    table += "\n|---:|---:|---:|---:|---:|";
    table += &"---:|---:|".repeat(peers.len());
    for size @ (rules, bytes) in sizes {
        let own = ours[size];
        let speed = *bytes as f64 / own.ms / 1e3;
        let _ = write!(
            table,
            "\n| {rules} | {} KiB | {} | {} | {speed:.0} |",
            bytes >> 10,
            shown(own.build_ms),
            shown(own.ms)
        );
        for peer in peers {
            let _ = match peer.figures.get(size) {
                None => write!(table, " | |"),
                Some(figures) if figures.is_whole() => {
                    write!(table, " {} | {:.0} |", shown(figures.ms), figures.ms / own.ms)
                }
                Some(Figures { ms, share, .. }) => {
                    write!(table, " {} for {:.0} % | more than {:.0} |", shown(*ms), share * 100.0, ms / own.ms)
                }
            };
        }
    }
    table
}

fn shown(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0} us", ms * 1e3),
        ms if ms < 1e3 => format!("{ms:.1} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// Draws milliseconds over a size, both axes logarithmic.
fn chart(title: &str, axis: &str, lines: &[(String, Vec<(f64, f64)>)]) -> Result<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let span = |values: &mut dyn Iterator<Item = f64>| -> Range<f64> {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        low..high
    };
    let across = span(&mut points().map(|point| point.0));
    let up = span(&mut points().map(|point| point.1));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 440)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .margin_right(28)
            .x_label_area_size(50)
            .y_label_area_size(84)
            .build_cartesian_2d(across.log_scale(), (up.start / 2.0..up.end * 2.0).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(axis)
            .y_desc("time for all deltas")
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|ms| shown(*ms).replace(".0 ", " "))
            .label_style(("sans-serif", 16))
            .draw()?;
        for ((name, points), color) in lines.iter().zip(COLORS) {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 16))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, figures: &[(Size, f64, f64)]) -> Peer {
        let figures = figures.iter().map(|&(size, ms, share)| (size, Figures { ms, share, build_ms: 0.0 })).collect();
        Peer { name: name.to_owned(), program: PathBuf::new(), arguments: Vec::new(), figures }
    }

    #[test]
    fn a_peer_that_was_stopped_takes_more_than_its_time() {
        let sizes = [(20, 32 << 10), (20, 256 << 10), (200, 256 << 10)];
        let ours = sizes.map(|size| (size, Figures { ms: 0.5, share: 1.0, build_ms: 2.0 })).into();
        let peers = [peer("Node 20", &[(sizes[0], 1_000.0, 1.0), (sizes[1], 5_000.0, 0.25)])];
        let rows = table(&sizes, &ours, &peers);
        assert_eq!(
            rows.lines().skip(2).collect::<Vec<_>>(),
            [
                "| 20 | 32 KiB | 2.0 ms | 500 us | 66 | 1.0 s | 2000 |",
                "| 20 | 256 KiB | 2.0 ms | 500 us | 524 | 5.0 s for 25 % | more than 10000 |",
                "| 200 | 256 KiB | 2.0 ms | 500 us | 524 | | |",
            ]
        );
    }

    #[test]
    fn a_chart_names_its_lines() {
        let points = vec![(1.0, 0.1), (1_024.0, 20.0)];
        let svg = chart("title", "KiB", &[("PiJS".to_owned(), points.clone()), ("other".to_owned(), points)]);
        let svg = svg.expect("the picture is drawn");
        for part in ["PiJS", "other", "10 ms", "#1A5FB4", "#77767B"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn a_folder_without_oh_my_pi_is_told_what_to_run() {
        let error = oh_my_pi(&crate::root().join("xtask")).err().expect("it is not there");
        assert!(error.to_string().contains("run `npm install @oh-my-pi/pi-coding-agent`"), "{error}");
    }
}
