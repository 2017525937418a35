//! `cargo xtask`: checks and generators of the workspace.
//!
//! | command | does |
//! |---|---|
//! | `deps` | checks the directions between crates and the rules on foreign ones ([`xtask::rules`]) |
//! | `codegen` | writes `schema/` from the types ([`xtask::codegen`]); with `--check` only compares |
//! | `nightly` | runs the long forms of tests ([`xtask::nightly`]); with names only those |
//!
//! The tests of this package run the same checks, so `cargo test --workspace` holds them too.

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Checks and generators of the workspace")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check directions between crates, banned crates, licences, where `unsafe` may be.
    Deps,
    /// Write the JSON Schemas.
    Codegen {
        /// Compare with what is there and change nothing.
        #[arg(long)]
        check: bool,
    },
    /// Run the long forms of the tests that CI runs short.
    Nightly {
        /// Which; all without a name.
        names: Vec<String>,
    },
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
        Task::Nightly { names } => xtask::nightly::run(&names)?,
        Task::Codegen { check: true } => xtask::codegen::check()?,
        Task::Codegen { check: false } => {
            for path in xtask::codegen::write()? {
                println!("wrote {}", path.display());
            }
        }
    }
    Ok(())
}
