//! `cargo xtask`: checks and generators of the workspace.
//!
//! | command | does |
//! |---|---|
//! | `bench` | compares streamed rules with the same work under Node and in oh-my-pi ([`xtask::bench`]) |
//! | `bench start` | compares the start of a session that loads real packages with that of pi on Node ([`xtask::start`]) |
//! | `bench tapes` | measures recordings, and replays one a thousand times ([`xtask::tapes`]) |
//! | `deps` | checks dependency directions, foreign crates, unused dependencies and names in pages ([`xtask::rules`]) |
//! | `conformance` | builds `pi` and compares it with the real one (package `pijs-conformance`) |
//! | `codegen` | writes `schema/` from the types and the notice of supplied packages ([`xtask::codegen`]); with `--check` only compares |
//! | `picture` | draws the picture in the README from a run of `pi demo` ([`xtask::picture`]) |
//! | `release` | builds `pi` and `extc` with all supplied packages embedded ([`xtask::release`]) |
//! | `nightly` | runs the long forms of all tests, or of the named ones ([`xtask::nightly`]) |
//!
//! The tests of this package run the same checks, so `cargo test --workspace` enforces them too.

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use std::process::Command;

#[derive(Parser)]
#[command(about = "Checks and generators of the workspace")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure streamed rules, starts or recordings, in a release build.
    Bench {
        /// Subject to measure.
        #[arg(value_enum, default_value_t = Subject::Rules)]
        subject: Subject,
        /// For starts and recordings: the program to measure instead of a release build.
        #[arg(long, value_name = "FILE")]
        pi: Option<std::path::PathBuf>,
        /// For starts: a folder in which `npm install @earendil-works/pi-coding-agent@0.87.1` was run, to measure that pi too.
        #[arg(long, value_name = "DIR")]
        node_pi: Option<std::path::PathBuf>,
        /// Run equal work under Node, and print ratios.
        #[arg(long)]
        against_node: bool,
        /// A folder in which `npm install @oh-my-pi/pi-coding-agent @oven/bun-linux-x64` was run: run equal work in oh-my-pi.
        #[arg(long, value_name = "DIR")]
        omp: Option<std::path::PathBuf>,
        /// Stop a peer after this time within a reply.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        limit: u64,
        /// For recorded sessions: number of replays of the tape with 10,000 records.
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        replays: usize,
        /// For recorded sessions: use shorter ones.
        #[arg(long)]
        short: bool,
        /// Measure more lengths and numbers of rules, and write `docs/benchmarks/*.svg`.
        #[arg(long)]
        charts: bool,
    },
    /// Check dependency directions, banned crates, licences, unused dependencies, names in pages, and the use of `unsafe`.
    Deps,
    /// Compare with the real pi over the corpus; `-- --help` lists the options.
    Conformance {
        /// Arguments for the program of package `pijs-conformance`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write the JSON Schemas and the notice of supplied packages.
    Codegen {
        /// Compare with the committed files without changing any.
        #[arg(long)]
        check: bool,
    },
    /// Draw `docs/demo.svg` from the output of `pi demo`.
    Picture {
        /// Program to run instead of a release build.
        #[arg(long, value_name = "FILE")]
        pi: Option<std::path::PathBuf>,
    },
    /// Build `pi` and `extc` with all packages embedded that pi supplies to extensions, so that the first start is offline and
    /// quick.
    Release,
    /// Run the long forms of the tests that CI runs short.
    Nightly {
        /// Names of the tests; runs all if there are none.
        names: Vec<String>,
    },
}

/// The subjects that `bench` measures.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// Streamed rules.
    Rules,
    /// Starts of a session with six real packages.
    Start,
    /// Recordings of sessions, and their replays.
    Tapes,
}

#[expect(clippy::print_stdout, reason = "this is a program for people and for CI logs")]
fn main() -> Result<()> {
    match Cli::parse().task {
        Task::Deps => {
            let workspace = xtask::rules::Workspace::read()?;
            let violations = workspace.violations()?;
            for violation in &violations {
                println!("{violation}");
            }
            if !violations.is_empty() {
                bail!("{} rules of the workspace are broken", violations.len());
            }
            println!("{} packages checked", workspace.packages());
        }
        Task::Bench { subject: Subject::Start, against_node, pi, node_pi, .. } => {
            if against_node && node_pi.is_none() {
                bail!(
                    "`--against-node start` runs the real pi: give `--node-pi DIR`, a folder in which `npm install @earendil-works/pi-coding-agent@0.87.1` was run"
                );
            }
            xtask::start::run(&xtask::start::Options { pi, node_pi }, &mut |text| println!("{text}"))?;
        }
        Task::Bench { subject: Subject::Tapes, pi, replays, short, .. } => {
            let options = xtask::tapes::Options { pi, replays, is_short: short };
            xtask::tapes::run(&options, &mut |text| println!("{text}"))?;
        }
        Task::Bench { subject: Subject::Rules, against_node, omp, limit, charts, .. } => {
            let options = xtask::bench::Options { node: against_node, omp, seconds: limit, charts };
            for path in xtask::bench::run(&options, &mut |text| println!("{text}"))? {
                println!("wrote {}", path.display());
            }
        }
        Task::Picture { pi } => println!("wrote {}", xtask::picture::write(pi.as_deref())?.display()),
        Task::Nightly { names } => xtask::nightly::run(&names)?,
        Task::Conformance { arguments } => conformance(&arguments)?,
        Task::Release => {
            for path in xtask::release::build()? {
                println!("{}", path.display());
            }
        }
        Task::Codegen { check: true } => xtask::codegen::check()?,
        Task::Codegen { check: false } => {
            for path in xtask::codegen::write()? {
                println!("wrote {}", path.display());
            }
        }
    }
    Ok(())
}

/// Builds `pi` and the conformance program, and runs the latter.
fn conformance(arguments: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |command: &mut Command| -> Result<()> {
        let status = command.status()?;
        if !status.success() {
            bail!("{status}");
        }
        Ok(())
    };
    // `cargo test --workspace` builds the same targets. Fewer targets would have fewer features of their dependencies enabled,
    // and the heavy compilers would be built a second time.
    run(Command::new(&cargo).args(["build", "--locked", "--workspace", "--lib", "--bins", "--tests", "--examples"]))?;
    let target = cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory;
    let built = |name: &str| target.join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let (pi, kept) = (built("pi"), target.join("conformance"));
    // The baseline covers all cases.
    let is_whole = !arguments.iter().any(|argument| argument.starts_with("--only"));
    let updates = is_whole && std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always");
    run(Command::new(built("pijs-conformance"))
        .args(["--pi", pi.as_str(), "--target", kept.as_str()])
        .args(arguments)
        .args(updates.then_some("--update")))
}
