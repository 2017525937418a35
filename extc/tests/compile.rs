//! Runs `fixtures/compile/AREA/CASE`: each is an extension, a `case.toml` and the compiler's expected output.
//!
//! `case.toml` has the input and the expected output of a run; `expected.snap` next to it holds the compiler's report: verdict,
//! diagnostics with positions, capabilities, host imports, modules, inputs. A failed build is stored as displayed.
//! `INSTA_UPDATE=always` rewrites the snapshots; review the difference.
//!
//! ```toml
//! why = "a decorator of each kind sees what TypeScript's legacy decorators see"
//! input = "."                       # package folder or file, relative to the case's folder
//! entries = ["b.ts", "a.ts"]        # instead of the entries that the package lists
//! dependencies = ["deps"]           # folders outside the package; none by default
//! prints = ["1 2"]                  # run it: these lines, and no failure ...
//! fails = ["index.ts: gone (index.ts:3:7)"]      # ... but these
//!
//! [[maps]]                          # the source of this text's first occurrence in the bundles
//! text = "new Error("
//! from = "src/a.ts:3:9"
//!
//! [[links]]                         # created in a copy of the case, since a repository cannot contain them
//! at = "secret.ts"
//! to = "/etc/hostname"
//!
//! [[generated]]                     # `before`, then `text` repeated `times` times, then `after`
//! at = "deep.ts"
//! text = "("
//! times = 2000
//! ```

mod support;

use libtest_mimic::{Arguments, Failed, Trial};
use pijs_artifact::Artifact;
use pijs_extc::{BuildFailure, BuildOptions, BuildOutput, Diagnostic, Input, Seal, SourceMaps, build};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Ran, run};
use tempfile::TempDir;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// A sentence for readers of the fixture.
    #[serde(rename = "why")]
    _why: String,
    input: Option<PathBuf>,
    entries: Option<Vec<PathBuf>>,
    #[serde(default)]
    dependencies: Vec<PathBuf>,
    prints: Option<Vec<String>>,
    /// Capabilities granted to the run.
    #[serde(default)]
    grants: Vec<String>,
    #[serde(default)]
    fails: Vec<String>,
    #[serde(default)]
    maps: Vec<Mapped>,
    #[serde(default)]
    links: Vec<Link>,
    #[serde(default)]
    generated: Vec<Generated>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapped {
    text: String,
    from: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    at: PathBuf,
    to: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generated {
    at: PathBuf,
    #[serde(default)]
    before: String,
    text: String,
    times: usize,
    #[serde(default)]
    after: String,
}

fn main() {
    pijs_extc::worker::enter();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/compile");
    // The gate compares canonical paths.
    let fixtures = fixtures.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", fixtures.display()));
    let mut trials = Vec::new();
    for area in folders(&fixtures) {
        for case in folders(&fixtures.join(&area)) {
            let folder = fixtures.join(&area).join(&case);
            trials.push(Trial::test(format!("{area}::{case}"), move || check(&folder)));
        }
    }
    assert!(!trials.is_empty(), "no fixtures in {}", fixtures.display());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Returns the names of a folder's subfolders, sorted.
fn folders(of: &Path) -> Vec<String> {
    let entries = fs::read_dir(of).unwrap_or_else(|error| panic!("{}: {error}", of.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a readable folder"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("fixtures have plain names"))
        .collect();
    names.sort();
    names
}

fn check(folder: &Path) -> Result<(), Failed> {
    let text = fs::read_to_string(folder.join("case.toml")).map_err(|error| format!("case.toml: {error}"))?;
    let case: Case = toml::from_str(&text).map_err(|error| format!("case.toml: {error}"))?;
    let prepared = prepare(folder, &case)?;
    let at = prepared.as_ref().map_or(folder, TempDir::path);
    let root = at.join(case.input.as_deref().unwrap_or(Path::new("")));
    let dependencies = case.dependencies.iter().map(|folder| at.join(folder)).collect();
    let mut input = Input::at(&root).with_dependencies(dependencies);
    if let Some(entries) = &case.entries {
        input = input.with_entries(entries.clone());
    }
    let built = build(&input, &BuildOptions::default());
    sealed_is_the_same(&input, &built)?;
    match built {
        Ok(built) => {
            snapshot(folder, &described(&built))?;
            for mapped in &case.maps {
                let from = original(built.artifact.artifact(), &mapped.text)?;
                equal(&format!("the place of `{}`", mapped.text), &from, &mapped.from)?;
            }
            if let Some(prints) = &case.prints {
                let root = if root.is_file() { at } else { &root };
                let ran = run(built.artifact, root, &case.grants);
                equal("what it does", &ran, &Ran { lines: prints.clone(), failures: case.fails.clone() })?;
            }
            Ok(())
        }
        Err(failure) if case.prints.is_some() => Err(failure.render(false).into()),
        // The name of the temporary folder differs in each run.
        Err(failure) => snapshot(folder, &failure.render(false).replace(&at.display().to_string(), "CASE")),
    }
}

/// Checks that a build that reads files through its parent gives the same output.
fn sealed_is_the_same(input: &Input, here: &Result<BuildOutput, BuildFailure>) -> Result<(), Failed> {
    let sealed = build(input, &BuildOptions { sealed: Some(Seal::default()), ..BuildOptions::default() });
    match (here, sealed) {
        (Ok(here), Ok(there))
            if here.encoded().unwrap() == there.encoded().unwrap() && here.diagnostics == there.diagnostics =>
        {
            Ok(())
        }
        (Err(here), Err(there)) if here.render(false) == there.render(false) => Ok(()),
        (_, Ok(_)) => Err("a sealed build gives something else".into()),
        (_, Err(failure)) => Err(format!("a sealed build says {}", failure.render(false)).into()),
    }
}

/// Creates a copy of the case with its links and generated files, if it has any.
fn prepare(folder: &Path, case: &Case) -> Result<Option<TempDir>, Failed> {
    if case.links.is_empty() && case.generated.is_empty() {
        return Ok(None);
    }
    let copy = TempDir::with_prefix("extc-case-")?;
    copy_folder(folder, copy.path())?;
    for link in &case.links {
        std::os::unix::fs::symlink(&link.to, copy.path().join(&link.at))?;
    }
    for file in &case.generated {
        let text = format!("{}{}{}", file.before, file.text.repeat(file.times), file.after);
        fs::write(copy.path().join(&file.at), text)?;
    }
    Ok(Some(copy))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Returns the source position of the first occurrence of `text` in the bundles.
fn original(artifact: &Artifact, text: &str) -> Result<String, Failed> {
    let maps = SourceMaps::new(artifact);
    for module in &artifact.modules {
        let Some(offset) = module.source.find(text) else { continue };
        let before = &module.source[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count() + 1;
        let position = |at: usize| u32::try_from(at).expect("bundles of fixtures are small");
        return Ok(match maps.original(&module.specifier, position(line), position(column)) {
            Some(place) => format!("{}:{}:{}", place.file, place.line, place.column),
            None => "nowhere".to_owned(),
        });
    }
    Err(format!("no module contains `{text}`").into())
}

/// Formats the complete report of a build.
fn described(built: &BuildOutput) -> String {
    let metadata = built.metadata();
    let mut out = String::new();
    let verdict = format!("{:?}", metadata.verdict).to_lowercase();
    let _ = writeln!(out, "{} {}: {verdict}", metadata.name, metadata.version);
    for diagnostic in &built.diagnostics {
        let _ = writeln!(out, "{}", line_of(diagnostic));
    }
    list(
        &mut out,
        "capabilities",
        metadata.capabilities.capabilities.iter().map(|request| {
            let scope = request.scope.as_ref().map(|scope| serde_json::to_string(scope).expect("a scope is JSON"));
            format!("{} {}", request.capability, scope.unwrap_or_default()).trim_end().to_owned()
        }),
    );
    let imports = metadata.host_imports.iter().map(|(module, names)| format!("{module} {}", names.join(" ")));
    list(&mut out, "host imports", imports);
    list(&mut out, "entries", metadata.entries.iter().cloned());
    list(&mut out, "modules", built.artifact.artifact().modules.iter().map(|module| module.specifier.clone()));
    list(&mut out, "inputs", metadata.inputs.keys().cloned());
    out
}

fn line_of(diagnostic: &Diagnostic) -> String {
    let place = diagnostic.place().map(|at| format!("{}:{}:{} ", at.file, at.line, at.column)).unwrap_or_default();
    let help = diagnostic.advice().map(|help| format!("\n    {help}")).unwrap_or_default();
    let severity = format!("{:?}", diagnostic.severity()).to_lowercase();
    format!("  {place}{severity} {}: {}{help}", diagnostic.code(), diagnostic.message())
}

fn list(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    if !items.is_empty() {
        let _ = writeln!(out, "{title}\n  {}", items.join("\n  "));
    }
}

fn snapshot(folder: &Path, content: &str) -> Result<(), Failed> {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        std::panic::catch_unwind(|| insta::assert_snapshot!("expected", content))
            .map_err(|_| Failed::from("expected.snap differs, see above"))
    })
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, actual: &T, expected: &T) -> Result<(), Failed> {
    if actual == expected { Ok(()) } else { Err(format!("{what}: {actual:#?}\nexpected {expected:#?}").into()) }
}
