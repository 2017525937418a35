//! The `extc` command.
//!
//! `pijs-extc` does all the work; this module parses arguments, prints results, and chooses the exit code: 0 for success, 1 if
//! the input has errors or cannot be loaded, or a test failed, 2 for wrong usage, 3 if `--strict` refuses the input. With
//! `--json`, standard output contains a single JSON document; messages are written to standard error.

mod init;
mod inspect;
mod report;

use crate::{logging, output, tape_tests};
use clap::{Args, Parser, Subcommand};
use pijs_extc::{BuildOptions, Cache, CheckOptions, Code, Diagnostic, FileAccess, Input, build, check, verdict};
use pijs_hostcall::Places;
use pijs_packages::ARTIFACT_FILE;
use pijs_protocol::artifact::{ArtifactMetadata, Verdict};
use pijs_runtime::{Environment, Notices, UserError};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Exit code of a failed command.
const FAILED: u8 = 1;
/// Exit code of a refusal by `--strict`.
const REFUSED: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  extc init my-extension             writes an extension to start from
  extc check ./my-extension          what works, what is constrained, what is blocked
  extc build ./my-extension -o out   writes out/extension.artifact and out/artifact.json
  extc build hello.ts                compiles one file, to check it
  extc inspect out                   shows the metadata of an artifact
  extc test . tapes/*.tape           runs recorded sessions through the extension, and shows what changed
  pi -e out                          runs what was built: compiled from its sources again, with the grants it asks for

Exit codes: 0 done, 1 the input has errors or cannot be loaded, or an output of a test changed, 2 usage, 3 refused by --strict.";

/// Compiles pi extensions: TypeScript or JavaScript in, an artifact out.
#[derive(Debug, Parser)]
#[command(name = "extc", version, after_help = EXAMPLES)]
struct Arguments {
    /// Append spans and events of the command to this file, as lines of pi.ext.log.v1; PI_LOG prints them.
    #[arg(long, global = true, value_name = "FILE")]
    log_json: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write an example extension: a tool, and a rule that stops a reply.
    Init {
        /// Folder to create, and name of the extension; this folder if omitted.
        #[arg(value_name = "NAME")]
        name: Option<PathBuf>,
        /// Write a WebAssembly component in Rust instead of TypeScript.
        #[arg(long)]
        wasm: bool,
    },
    /// Compile a package folder or an extension file.
    Build {
        /// Package folder, or one .ts, .js or .wasm file.
        input: PathBuf,
        /// Write extension.artifact and artifact.json into this folder.
        #[arg(short, long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Minify the bundled source.
        #[arg(long)]
        minify: bool,
        /// Compile again even if nothing changed, and store nothing.
        #[arg(long)]
        no_cache: bool,
        /// Print the metadata as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Report features that are restricted or blocked, with positions.
    Check {
        /// Package folder, one .ts, .js or .wasm file, or the output of a build.
        input: PathBuf,
        /// Exit with 3 if anything is blocked, because the strict policy of pi refuses it.
        #[arg(long)]
        strict: bool,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run recorded sessions through an extension, and show the outputs that changed.
    Test(TestArgs),
    /// Show header, digests, capabilities and modules of an artifact.
    Inspect {
        /// An extension.artifact file, or the folder that contains it.
        artifact: PathBuf,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `extc test`
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Package folder or extension file (this folder if omitted), then recordings made by pi --tape FILE.
    #[arg(value_name = "[ENTRY] TAPE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Write the new outputs into the recordings.
    #[arg(long)]
    pub(crate) accept: bool,
    /// Also run each recording under this many other orders of completions and timers.
    #[arg(long, value_name = "N", conflicts_with = "accept")]
    pub(crate) explore: Option<usize>,
    /// Let this many calls of a schedule time out, be denied, fail or be dropped.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "explore")]
    pub(crate) faults: usize,
    /// Write the results to this file, in the format of JUnit.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command and returns its exit code.
///
/// `arguments` includes the program's name; `out` and `err` are standard output and standard error.
///
/// # Errors
///
/// Fails only if `out` or `err` cannot be written.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let Arguments { log_json, command } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let text = error.render();
            if error.use_stderr() {
                write!(err, "{text}")?
            } else {
                write!(out, "{text}")?
            }
            return Ok(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Err(failure) = install_log(log_json.as_deref()) {
        writeln!(err, "{failure}")?;
        return Ok(failure.exit.code());
    }
    match command {
        Command::Init { name, wasm } => init::run(name.as_deref(), wasm, err),
        Command::Build { input, out: folder, minify, no_cache, json } => {
            let mut remarks = Vec::new();
            let (cache, access) = (cache(no_cache, &mut remarks), access()?);
            let options = BuildOptions { minify, cache, access, ..BuildOptions::default() };
            run_build(&input, folder.as_deref(), &options, remarks, json, out, err)
        }
        Command::Check { input, strict, json } => run_check(&input, strict, json, out, err),
        Command::Test(args) => Ok(tape_tests::run(&args)),
        Command::Inspect { artifact, json } => inspect::run(&artifact, json, out, err),
    }
}

/// Installs the logs that `PI_LOG` and `--log-json` request. Without a home, the secrets to redact are not known, so nothing is
/// logged, and a log file that was requested is an error.
fn install_log(json: Option<&Path>) -> Result<(), UserError> {
    match (Environment::capture(), json) {
        (Ok(mut environment), json) => {
            environment.notices = Notices::new(output::stderr);
            logging::install(&environment, json, "extc")
        }
        (Err(failure), Some(_)) => Err(failure),
        (Err(_), None) => Ok(()),
    }
}

/// Returns the same access to this user's files as in pi, so that a manual build does not embed a key in an artifact either.
fn access() -> io::Result<FileAccess> {
    // Without a home, there are no files of this user's pi.
    let places = match Environment::capture() {
        Ok(environment) => environment.places(),
        Err(_) => Places::new(std::env::current_dir()?.canonicalize()?, "/", "/.pi/agent", std::env::temp_dir()),
    };
    Ok(FileAccess::new(places))
}

fn cache(off: bool, remarks: &mut Vec<Diagnostic>) -> Option<Cache> {
    if off {
        return None;
    }
    match Cache::user() {
        Ok(cache) => {
            let elsewhere = |notice| Diagnostic::new(Code::Cache, notice).help("repair or remove what is named there");
            remarks.extend(cache.notice().map(elsewhere));
            Some(cache)
        }
        Err(error) => {
            let message = format!("no artifact cache: {error}");
            remarks.push(Diagnostic::new(Code::Cache, message).help("every build compiles again until this is fixed"));
            None
        }
    }
}

fn run_build(
    input: &Path,
    folder: Option<&Path>,
    options: &BuildOptions,
    mut remarks: Vec<Diagnostic>,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let built = match build(&Input::at(input), options) {
        Ok(built) => built,
        Err(failure) => {
            remarks.extend_from_slice(failure.diagnostics());
            report::diagnostics(&remarks, json, out, err)?;
            return Ok(FAILED);
        }
    };
    remarks.extend_from_slice(&built.diagnostics);
    let metadata = built.metadata();
    let judged = CheckResult::new(Some(&metadata), &built.diagnostics, false);
    let encoded = built.encoded();
    let size = encoded.as_ref().map_or(0, Vec::len).div_ceil(1024);
    if let Some(folder) = folder
        && let Err(error) = encoded.and_then(|bytes| write_files(folder, &bytes, &report::pretty(&metadata)))
    {
        let diagnostic = Diagnostic::new(Code::Read, format!("{}: {error}", folder.display()));
        report::diagnostics(&[diagnostic], json, out, err)?;
        return Ok(FAILED);
    }
    if json {
        out.write_all(report::pretty(&metadata).as_bytes())?;
        return Ok(judged.code);
    }
    report::diagnostics(&remarks, false, out, err)?;
    let modules = built.artifact.artifact().modules.len();
    let source = if built.cached { ", unchanged" } else { "" };
    writeln!(err, "{} {}: {modules} modules, {size} KB{source}", metadata.name, metadata.version)?;
    report::capabilities(&metadata, err)?;
    if let Some(folder) = folder {
        writeln!(err, "wrote {}", folder.join(ARTIFACT_FILE).display())?;
    }
    writeln!(err, "{} {}: {}", metadata.name, metadata.version, judged.words)?;
    Ok(judged.code)
}

/// The verdict on a build or a check.
struct CheckResult {
    verdict: Verdict,
    words: &'static str,
    /// Exit code of the command.
    code: u8,
}

impl CheckResult {
    /// Derives the verdict from the diagnostics; `metadata` is `None` if the input does not compile.
    fn new(metadata: Option<&ArtifactMetadata>, diagnostics: &[Diagnostic], strict: bool) -> Self {
        let verdict = verdict(diagnostics);
        let is_loadable = !diagnostics.iter().any(Diagnostic::ends_load);
        let words = if is_loadable { report::verdict(verdict) } else { "blocked: it cannot be loaded, see above" };
        let code = match (metadata, verdict) {
            (None, _) => FAILED,
            (Some(_), Verdict::Blocked) if strict => REFUSED,
            (Some(_), _) if !is_loadable => FAILED,
            _ => 0,
        };
        Self { verdict, words, code }
    }
}

/// Writes each file under a temporary name and renames it, so that a reader never sees an incomplete file.
fn write_files(folder: &Path, artifact: &[u8], metadata: &str) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, bytes) in [(ARTIFACT_FILE, artifact), ("artifact.json", metadata.as_bytes())] {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(folder.join(name))?;
    }
    Ok(())
}

fn run_check(input: &Path, strict: bool, json: bool, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let checked = check(&Input::at(input), &CheckOptions { access: access()?, ..CheckOptions::default() });
    let judged = CheckResult::new(checked.metadata.as_ref(), &checked.diagnostics, strict);
    if json {
        let diagnostics: Vec<_> = checked.diagnostics.iter().map(Diagnostic::to_json).collect();
        let value = serde_json::json!({
            "verdict": judged.verdict,
            "name": checked.metadata.as_ref().map(|metadata| &metadata.name),
            "entries": checked.metadata.as_ref().map(|metadata| &metadata.entries),
            "capabilities": checked.metadata.as_ref().map(|metadata| &metadata.capabilities.capabilities),
            "host_imports": checked.metadata.as_ref().map(|metadata| &metadata.host_imports),
            "diagnostics": diagnostics,
        });
        out.write_all(report::pretty(&value).as_bytes())?;
    } else {
        report::diagnostics(&checked.diagnostics, false, out, err)?;
        if let Some(metadata) = &checked.metadata {
            writeln!(out, "{} {}: {}", metadata.name, metadata.version, judged.words)?;
            report::capabilities(metadata, out)?;
        }
    }
    Ok(judged.code)
}
