//! `cargo xtask conformance`: runs `pi` over the corpus and compares the results with those of the real pi.

use anyhow::{Context, Result, bail};
use clap::Parser;
use pijs_conformance::baseline::{Baseline, Counts};
use pijs_conformance::compare::Options;
use pijs_conformance::corpus::{Case, Corpus, Laid, OFFLINE};
use pijs_conformance::cost::{self, Cost};
use pijs_conformance::coverage::Coverage;
use pijs_conformance::features::{self, Fixture, Program};
use pijs_conformance::run::{Outcome, Runner, Verdict};
use pijs_conformance::verdicts::{self, Known};
use pijs_conformance::{compatibility, report};
use pijs_packages::{InstallCode, NpmConfig, PackageError};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Parser)]
#[command(about = "Compares PiJS with the real pi over a corpus of extensions")]
struct Cli {
    /// The `pi` to run
    #[arg(long, value_name = "FILE")]
    pi: PathBuf,
    /// Only cases whose key contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Number of concurrent cases
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Folder of fetched packages
    #[arg(long, value_name = "DIR", default_value = "target/conformance")]
    target: PathBuf,
    /// Compare nothing, with a message, if the registry cannot be reached
    #[arg(long)]
    skip_unreachable: bool,
    /// Write the baseline of this run
    #[arg(long)]
    update: bool,
    /// Only write docs/compatibility.md, from the baseline and a probe of a realm
    #[arg(long)]
    docs: bool,
    /// Write the run as a page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Measure the cost of each extension instead of comparing, and print a table
    #[arg(long)]
    costs: bool,
    /// Only run the main feature of each package
    #[arg(long)]
    features: bool,
    /// Record the real pi's results for each package in fixtures/features, with this Node and script
    #[arg(long, num_args = 2, value_names = ["NODE", "SCRIPT"])]
    capture: Option<Vec<PathBuf>>,
    /// Show every difference
    #[arg(long)]
    verbose: bool,
    /// Run extensions in a process or a thread
    #[arg(long)]
    isolation: Option<String>,
}

#[expect(clippy::print_stdout, reason = "this is a program for people and for CI logs")]
#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("fixtures/conformance");
    let corpus = Corpus::read(&folder)?;
    if cli.docs {
        return write_page(&cli, &root, &corpus);
    }
    let is_offline = std::env::var_os(OFFLINE).is_some_and(|value| !value.is_empty());
    let cases: Vec<_> = corpus
        .cases
        .iter()
        .filter(|case| case.key().contains(&cli.only) && (!is_offline || case.packages.is_empty()))
        .cloned()
        .collect();
    let is_whole = cases.len() == corpus.cases.len();
    if !is_whole {
        println!("{} of {} cases", cases.len(), corpus.cases.len());
    }
    let features = Fixture::all(&root.join("fixtures/features"))?;
    let features: Vec<_> =
        features.into_iter().filter(|(_, fixture)| !is_offline && fixture.key().contains(&cli.only)).collect();
    let target = std::path::absolute(&cli.target)?;
    let names =
        cases.iter().flat_map(|case| &case.packages).chain(features.iter().map(|(_, fixture)| &fixture.package));
    let laid = match corpus.lay_out(names, &target, npm_config()?).await {
        Err(error) if cli.skip_unreachable && is_unreachable(&error) => {
            println!("not compared: {error:#}");
            return Ok(());
        }
        laid => laid?,
    };
    if cli.costs {
        print_costs(&cli, &laid, &cases).await;
        return Ok(());
    }
    let depot = Corpus::depot(&target, npm_config()?)?;
    if let Some([node, script]) = cli.capture.as_deref() {
        let real = Program::Real(node.clone(), script.clone());
        for (file, mut fixture) in features {
            features::capture(&real, &corpus, &laid, &depot, &mut fixture).await.with_context(|| fixture.key())?;
            println!("{}: captured", fixture.key());
            std::fs::write(file, format!("{}\n", serde_json::to_string_pretty(&fixture)?))?;
        }
        return Ok(());
    }
    let fixtures: Vec<_> = features.into_iter().map(|(_, fixture)| fixture).collect();
    let use_features = async {
        let done =
            |outcome: &features::Outcome| println!("{}", line(&outcome.fixture.key(), &outcome.verdict, cli.verbose));
        features::run(&Program::Ours(cli.pi.clone()), &corpus, &laid, &depot, &fixtures, done).await
    };
    if cli.features {
        let failed = features::surprises(&use_features.await?);
        return if failed.is_empty() { Ok(()) } else { bail!("{} surprises", failed.len()) };
    }
    compare(&cli, &folder, laid.clone(), &cases, is_whole, use_features).await
}

/// Writes docs/compatibility.md, from the baseline and a probe of a realm.
fn write_page(cli: &Cli, root: &Path, corpus: &Corpus) -> Result<()> {
    let baseline = Baseline::read(&root.join("fixtures/conformance/baseline.json"))?;
    let coverage = Coverage::measure(&cli.pi, &root.join("fixtures/api"))?;
    let features = Fixture::all(&root.join("fixtures/features"))?;
    let features: Vec<Fixture> = features.into_iter().map(|(_, fixture)| fixture).collect();
    std::fs::write(root.join("docs/compatibility.md"), compatibility::page(corpus, &baseline, &coverage, &features))?;
    Ok(())
}

/// Measures the cost of each extension and prints a table.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people and for CI logs")]
async fn print_costs(cli: &Cli, laid: &Laid, cases: &[Case]) {
    let progress = |cost: &Cost| eprintln!("{}: {:?}", cost.entry, cost.cached);
    let failed = |entry: &str, error: &anyhow::Error| eprintln!("{entry}: not measured: {error:#}");
    print!("{}", cost::table(&cost::measure(&cli.pi, laid, cases, progress, failed).await));
}

/// Runs the cases and then the main features, and fails if a result deviates from the baseline.
#[expect(clippy::print_stdout, reason = "this is a program for people and for CI logs")]
async fn compare(
    cli: &Cli,
    folder: &Path,
    laid: Laid,
    cases: &[Case],
    is_whole: bool,
    use_features: impl Future<Output = Result<Vec<features::Outcome>>>,
) -> Result<()> {
    let runner = Runner {
        pi: cli.pi.clone(),
        laid,
        jobs: cli.jobs,
        limit: Duration::from_secs(120),
        args: cli.isolation.iter().map(|isolation| format!("--isolation={isolation}")).collect(),
        options: Options::default(),
    };
    let baseline_file = folder.join("baseline.json");
    let mut baseline = Baseline::read(&baseline_file)?;
    let done = |outcome: &Outcome| println!("{}", line(&outcome.case.key(), &outcome.verdict, cli.verbose));
    let outcomes = runner.run(cases, done).await?;
    let same = Counts::passing(&outcomes);
    println!("as in pi: {} snapshots, {} traces, of {} cases", same.snapshots, same.traces, outcomes.len());
    // The features run after the cases, which have compiled the packages.
    let used = use_features.await?;
    if cli.update {
        if !is_whole {
            bail!("--update needs a run over all cases");
        }
        baseline = baseline.updated(&outcomes);
        std::fs::write(&baseline_file, format!("{}\n", serde_json::to_string_pretty(&baseline)?))?;
    }
    if let Some(file) = &cli.report {
        std::fs::write(file, report::html(&outcomes, &baseline, &used)).with_context(|| file.display().to_string())?;
    }
    let mut surprises: Vec<String> = baseline.surprises(&outcomes, is_whole).iter().map(ToString::to_string).collect();
    let known: Known = serde_json::from_str(&std::fs::read_to_string(folder.join("verdicts.json"))?)?;
    surprises.extend(features::surprises(&used));
    surprises.extend(verdicts::surprises(&runner.pi, &runner.laid, cases, &known).await?);
    for surprise in &surprises {
        println!("{surprise}");
    }
    if !surprises.is_empty() {
        bail!("{} surprises", surprises.len());
    }
    Ok(())
}

/// Returns whether an error is caused by the network, and not by the received data.
fn is_unreachable(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<PackageError>().map(|error| error.code);
    matches!(code, Some(InstallCode::Io | InstallCode::Timeout | InstallCode::Source))
}

fn line(key: &str, verdict: &Verdict, is_verbose: bool) -> String {
    match verdict {
        Verdict::Same => format!("{key}: ok"),
        Verdict::Broken(why) => format!("{key}: {why}"),
        Verdict::Differs(differences) if is_verbose => {
            let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
            format!("{key}: differs\n{}", shown.join("\n"))
        }
        Verdict::Differs(differences) => {
            format!("{key}: differs at {}", differences.first().map_or("", |first| first.place.as_str()))
        }
    }
}

/// Returns the user's npm configuration, which names the registry.
fn npm_config() -> Result<NpmConfig> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let file = variable("NPM_CONFIG_USERCONFIG")
        .or_else(|| variable("HOME").map(|home| format!("{home}/.npmrc")))
        .unwrap_or_default();
    // The file is optional.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    Ok(pijs_runtime::proxies::for_registries(NpmConfig::parse(&text, &|name| variable(name))?, variable))
}
