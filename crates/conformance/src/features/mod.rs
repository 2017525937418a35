//! Runs the main feature of each package as a user would: `pi install npm:NAME`, then a session with scripted inputs. The package
//! has only the grants that it requested and that the script gave.
//!
//! `fixtures/features/*.json` has one package each: inputs, replies of the model and servers, prompts of pi, and the results of
//! the real pi. The registry ([`registry`]) and all servers of a package run on this machine.
//!
//! | module | contents |
//! |---|---|
//! | [`fixture`] | the form of the files |
//! | [`session`] | the user: an RPC client |
//! | [`observations`] | results of a session, by kind |
//! | [`model`], [`loopback`] | servers |

mod fixture;
mod loopback;
mod model;
mod observations;
mod registry;
mod session;

pub use fixture::Fixture;

use crate::compare::Difference;
use crate::corpus::{Corpus, Laid};
use crate::run::Verdict;
use anyhow::{Context, Result, bail};
use fixture::{Listen, PromptAnswer, Route};
use loopback::{Server, ServerRequest, ServerResponse, serve};
use observations::Observations;
use pijs_packages::TarballCache;
use serde_json::{Map, Value, json};
use session::Session;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Time limit of an install.
const INSTALL: Duration = Duration::from_secs(300);

/// The `pi` to run.
#[derive(Debug, Clone)]
pub enum Program {
    /// PiJS, with the path of its program.
    Ours(PathBuf),
    /// The real pi, with the paths of Node and of pi's script.
    Real(PathBuf, PathBuf),
}

/// The result of a package.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The package and its feature.
    pub fixture: Fixture,
    /// Whether the results equal those of the real pi, and the prompts are the expected ones.
    pub verdict: Verdict,
}

/// Describes each package whose results differ unexpectedly, in a sentence each.
pub fn surprises(outcomes: &[Outcome]) -> Vec<String> {
    let failed = outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Same);
    failed.map(|outcome| format!("{}: results differ from those of the real pi", outcome.fixture.key())).collect()
}

/// The results of one run of a package.
struct Run {
    granted: Vec<String>,
    asked: Vec<PromptAnswer>,
    seen: Map<String, Value>,
}

/// Runs one package after the other; calls `done` after each.
///
/// # Errors
///
/// Fails for packages that are not in `lock.json`, or if a port of this machine is taken.
pub async fn run(
    program: &Program,
    corpus: &Corpus,
    laid: &Laid,
    depot: &TarballCache,
    fixtures: &[Fixture],
    done: impl Fn(&Outcome),
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for fixture in fixtures {
        let registry = registry::open(corpus, laid, depot, &fixture.package).await?;
        let verdict = match used(program, fixture, &registry).await {
            Ok(run) => verdict(fixture, &run),
            Err(error) => Verdict::Broken(format!("{error:#}")),
        };
        let outcome = Outcome { fixture: fixture.clone(), verdict };
        done(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Records the results of a package with the real pi.
///
/// # Errors
///
/// Fails if a session does not end.
pub async fn capture(
    program: &Program,
    corpus: &Corpus,
    laid: &Laid,
    depot: &TarballCache,
    fixture: &mut Fixture,
) -> Result<()> {
    let registry = registry::open(corpus, laid, depot, &fixture.package).await?;
    fixture.expected = used(program, fixture, &registry).await?.seen;
    Ok(())
}

fn verdict(fixture: &Fixture, run: &Run) -> Verdict {
    let mut differences = Vec::new();
    let mut same = |place: &str, expected: Value, actual: Value| {
        if expected != actual {
            let place = place.to_owned();
            differences.push(Difference { place, expected: Some(expected), actual: Some(actual) });
        }
    };
    same("granted", json!(fixture.granted), json!(run.granted));
    same("asked", json!(fixture.asked), json!(run.asked));
    let kinds = fixture.expected.keys().chain(run.seen.keys().filter(|kind| !fixture.expected.contains_key(*kind)));
    let of = |seen: &Map<String, Value>, kind: &str| {
        let mut list = seen.get(kind).cloned().unwrap_or_default();
        if let (Value::Array(list), true) = (&mut list, fixture.unordered.iter().any(|other| other == kind)) {
            list.sort_by_key(Value::to_string);
        }
        list
    };
    for kind in kinds {
        let (expected, actual) = (of(&fixture.expected, kind), of(&run.seen, kind));
        let lists =
            (expected.as_array().map_or(&[][..], Vec::as_slice), actual.as_array().map_or(&[][..], Vec::as_slice));
        for index in 0..lists.0.len().max(lists.1.len()) {
            let at = |list: &[Value]| list.get(index).cloned().unwrap_or_default();
            same(&format!("{kind}[{index}]"), at(lists.0), at(lists.1));
        }
    }
    let mended = fixture.known.keys().find(|place| !differences.iter().any(|difference| difference.place == **place));
    if let Some(place) = mended {
        return Verdict::Broken(format!("{place} is listed as known, but no longer differs; remove it"));
    }
    differences.retain(|difference| !fixture.known.contains_key(&difference.place));
    if differences.is_empty() { Verdict::Same } else { Verdict::Differs(differences) }
}

/// Installs a package into a fresh home and runs its steps in a fresh project.
async fn used(program: &Program, fixture: &Fixture, registry: &Server) -> Result<Run> {
    let world = World::new()?;
    let mut places = world.places();
    let seen = Observations::new(&fixture.normalise)?;
    let mut servers = Vec::new();
    for (index, listen) in fixture.servers.iter().enumerate() {
        let server = open(index, listen, &places, seen.clone()).await?;
        places.push((format!("{{{{server:{index}}}}}"), format!("http://{}", server.address)));
        places.push((format!("{{{{port:{index}}}}}"), server.address.port().to_string()));
        servers.push(server);
    }
    let fixture = fixture.placed(&places)?;
    let model = model::open(fixture.model.clone(), seen.clone()).await?;
    places.push(("{{model}}".to_owned(), format!("http://{}", model.address)));
    seen.place(places.into_iter().filter(|(name, _)| !name.contains("port")).collect());
    world.fill(&fixture, &model, registry)?;

    let source = format!("npm:{}", fixture.package);
    let mut install = world.command(program, &fixture);
    install.args(["install", &source]);
    if let Program::Ours(_) = program {
        install.args(["--yes", "--json"]);
    }
    let installed = tokio::time::timeout(INSTALL, install.output()).await.context("the install does not end")??;
    if !installed.status.success() {
        bail!("the install ended with {}: {}", installed.status, String::from_utf8_lossy(&installed.stderr));
    }
    let mut command = world.command(program, &fixture);
    let mut granted = Vec::new();
    match program {
        Program::Ours(_) => {
            let document: Value = serde_json::from_slice(&installed.stdout).context("what install prints")?;
            granted.extend(
                document["granted"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned),
            );
            if fixture.trust {
                let trusted = world.command(program, &fixture).arg("trust").output().await?;
                if !trusted.status.success() {
                    bail!("the project cannot be trusted: {}", String::from_utf8_lossy(&trusted.stderr));
                }
            }
        }
        Program::Real(..) if fixture.trust => {
            command.arg("--approve");
        }
        Program::Real(..) => {}
    }
    command.args(["--mode", "rpc", "--model", "local/one"]).stdin(Stdio::piped());
    // An unread pipe would fill up and block the program.
    command.stderr(std::fs::File::create(world.path("stderr"))?);
    let mut session = Session::start(command, &fixture, seen.clone())?;
    let ran = session.run(&fixture).await;
    let asked = std::mem::take(&mut session.asked);
    if let Err(error) = ran {
        let said = std::fs::read_to_string(world.path("stderr")).unwrap_or_default();
        bail!("{error:#}\nit said {said}\nseen so far {}", Value::from(seen.document()));
    }
    Ok(Run { granted, asked, seen: seen.document() })
}

/// Starts a server of a fixture; its requests are recorded.
async fn open(index: usize, listen: &Listen, places: &[(String, String)], seen: Observations) -> Result<Server> {
    let mut routes = listen.routes.clone();
    for Route { body, .. } in &mut routes {
        let text = places.iter().fold(body.to_string(), |text, (name, place)| text.replace(name, place));
        *body = serde_json::from_str(&text)?;
    }
    serve(listen.port, move |request: &ServerRequest| {
        let route = routes.iter().find(|route| route.on == format!("{} {}", request.method, request.path()));
        let sent = String::from_utf8_lossy(&request.body);
        let sent = serde_json::from_str(&sent).unwrap_or_else(|_| Value::from(sent.as_ref()));
        seen.note(
            "servers",
            json!({ "server": index, "asked": format!("{} {}", request.method, request.url), "sent": sent }),
        );
        let Some(route) = route else { return ServerResponse::missing() };
        match &route.body {
            Value::String(text) => ServerResponse::new(route.kind.as_deref().unwrap_or("text/plain"), text.as_str()),
            json => ServerResponse::new(route.kind.as_deref().unwrap_or("application/json"), json.to_string()),
        }
    })
    .await
}

/// Fresh folders for one run of a package.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Result<Self> {
        let world = Self(tempfile::tempdir()?);
        for folder in ["cwd", "home/.pi/agent", "tmp", "bin"] {
            std::fs::create_dir_all(world.path(folder))?;
        }
        Ok(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn places(&self) -> Vec<(String, String)> {
        let folders = ["cwd", "home", "tmp", "bin"].map(|name| (name, self.path(name)));
        let mut places: Vec<_> =
            folders.map(|(name, path)| (format!("{{{{{name}}}}}"), path.display().to_string())).into();
        // Programs name a user's folder in the shared temporary folder like this.
        let owner = std::fs::metadata(self.path("cwd")).map(|folder| folder.uid());
        places.extend(owner.ok().map(|uid| ("{{owner}}".to_owned(), format!("uid-{uid}"))));
        places
    }

    fn fill(&self, fixture: &Fixture, model: &Server, registry: &Server) -> Result<()> {
        let all: [(&str, &BTreeMap<String, String>); 3] =
            [("cwd", &fixture.files), ("home", &fixture.home), ("bin", &fixture.programs)];
        for (folder, files) in all {
            for (name, text) in files {
                let file = self.path(folder).join(name);
                std::fs::create_dir_all(file.parent().unwrap_or(&file))?;
                std::fs::write(&file, text)?;
                if folder == "bin" {
                    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
                }
            }
        }
        let one = |id: &str, reasons: bool| json!({ "id": id, "name": id, "reasoning": reasons, "contextWindow": 128_000, "maxTokens": 16_384 });
        let provider = json!({
            "baseUrl": format!("http://{}/v1", model.address), "api": "openai-completions", "apiKey": "local",
            "models": [one("one", false), one("two", true)],
        });
        let models = json!({ "providers": { "local": provider } });
        std::fs::write(self.path("home/.pi/agent/models.json"), models.to_string())?;
        std::fs::write(self.path("home/.npmrc"), format!("registry=http://{}/\n", registry.address))?;
        Ok(())
    }

    fn command(&self, program: &Program, fixture: &Fixture) -> Command {
        let mut command = match program {
            Program::Ours(pi) => Command::new(pi),
            Program::Real(node, script) => {
                let mut command = Command::new(node);
                command.arg(script);
                command
            }
        };
        let path = [self.path("bin").into_os_string(), OsString::from("/usr/local/bin:/usr/bin:/bin")];
        command
            .current_dir(self.path("cwd"))
            .env_clear()
            .env("PATH", path.join(":".as_ref()))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("NPM_CONFIG_USERCONFIG", self.path("home/.npmrc"))
            .env("XDG_CACHE_HOME", cache())
            .envs([("TZ", "UTC"), ("LANG", "C.UTF-8"), ("TERM", "xterm-256color"), ("GIT_CONFIG_NOSYSTEM", "1")])
            // For the real pi: disables npm's activities besides the install.
            .envs([("npm_config_ignore_scripts", "true"), ("npm_config_audit", "false"), ("npm_config_fund", "false")])
            .env("npm_config_cache", self.path("tmp/npm"))
            .envs(&fixture.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// Returns this user's cache folder, in which the packages of the corpus are already compiled.
fn cache() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    variable("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_else(std::env::temp_dir)
}
