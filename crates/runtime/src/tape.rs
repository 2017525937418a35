//! `--tape`, `extensions.tape` of the settings, and `pi replay`: recording the realms of a session, and replaying a recording.

mod settings;

pub(crate) use settings::TapeSettings;

use crate::config::{Isolation, SessionConfig};
use crate::environment::Environment;
use crate::grants::UserDecisions;
use crate::isolation::{Terms, opener};
use crate::similar::meant_path;
use crate::supply::Supplier;
use crate::user_error::{Result, UserError, is_missing};
use pijs_artifact::{Artifact, PositionMap, Verified};
use pijs_extc::{SourceMaps, Supply};
use pijs_host::{HostOptions, OpenError, OpenRealm, OpenedRealm, OpeningRealm};
use pijs_hostcall::Mode;
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Now, Yield};
use pijs_realm::{Realm, SyncHost};
use pijs_redact::Redactor;
use pijs_tape::{
    Event, ModuleSet, RecordedRealm, Recorder, ReplayError, ReplayServices, TapeError, TapeHeader, TapeIndex,
    TapeReader, Wire, code_digest,
};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Symbolic link to the data of the system's time zone; its target contains the zone's name.
const LOCAL_TIME: &str = "/etc/localtime";

/// Parts of a session that its recording describes, in addition to the settings.
pub(crate) struct Recording<'a> {
    pub(crate) host_modules: &'a Verified,
    pub(crate) options: &'a HostOptions,
    pub(crate) decided: &'a UserDecisions,
    pub(crate) redactor: &'a Redactor,
    pub(crate) epoch_ms: u64,
}

/// Starts the recording of the configuration or the settings. An error does not end the session if only the settings request the
/// recording.
pub(crate) fn begin(
    environment: &Environment,
    config: &SessionConfig,
    recording: &Recording<'_>,
) -> Result<Option<Recorder>> {
    match begin_any(environment, config, recording) {
        Err(failure) if config.tape.is_none() => {
            environment.notices.warn(failure.brief());
            Ok(None)
        }
        begun => begun,
    }
}

fn begin_any(environment: &Environment, config: &SessionConfig, recording: &Recording<'_>) -> Result<Option<Recorder>> {
    let Some(path) = environment.tape.clone() else { return Ok(None) };
    let failed = |error: io::Error| {
        UserError::failed(format!("the tape {} cannot be written: {error}", path.display()))
            .help("name a file that does not exist yet, in a folder that can be written")
    };
    let of_settings = match config.tape {
        Some(_) => None,
        None => Some(TapeSettings::of(environment)?),
    };
    if let Some(settings) = of_settings {
        settings.make_room(&path).map_err(failed)?;
    }
    let file = create(&path).map_err(failed)?;
    let Recording { host_modules, options, decided, redactor, epoch_ms } = recording;
    let header = TapeHeader {
        seed: options.seed,
        epoch_ms: *epoch_ms,
        clock_step_us: options.clock_step_us,
        time_zone: time_zone(environment),
        isolation: config.isolation.to_string(),
        profile: options.profile.version().to_owned(),
        policy: name_of(decided.policy.mode).to_owned(),
        ..TapeHeader::new(
            env!("CARGO_PKG_VERSION"),
            host_modules.artifact().metadata.engine.clone(),
            code_digest(host_modules.artifact()),
        )
    };
    let (notices, name) = (environment.notices.clone(), path.clone());
    let on_failure = move |error: &io::Error| {
        notices.warn(format!("the recording {} ends here: {error}; the session continues", name.display()));
    };
    let (substitutes, on_failure) = (redactor.substitutes(), Box::new(on_failure));
    let recorder = match of_settings {
        Some(settings) => Recorder::new(settings.limited(file), &header, substitutes, on_failure),
        None => Recorder::new(file, &header, substitutes, on_failure),
    };
    recorder.map(Some).map_err(failed)
}

fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Strict => "strict",
        Mode::Prompt => "prompt",
        Mode::Permissive => "permissive",
    }
}

/// Creates the file, readable only by its owner. An existing file is not overwritten unless it is empty.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file already exists")),
        false => Ok(file),
    }
}

/// Returns the value of `TZ` for realms: the variable, or the name of the system's zone.
fn time_zone(environment: &Environment) -> String {
    if let Some(zone) = environment.variable("TZ") {
        return zone.to_owned();
    }
    let target = std::fs::canonicalize(LOCAL_TIME).ok();
    let name = target.as_deref().and_then(Path::to_str).and_then(|path| path.split_once("/zoneinfo/"));
    name.map_or_else(|| "UTC".to_owned(), |(_, name)| name.to_owned())
}

/// Realms that are recorded.
pub(crate) struct RecordedRealms {
    pub(crate) opener: Box<dyn OpenRealm>,
    pub(crate) recorder: Recorder,
}

impl OpenRealm for RecordedRealms {
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError> {
        let mut wire = self.recorder.begin(options, &modules, now);
        let opened = self.opener.open(options, modules, now, &mut wire.host(host));
        recorded(opened, wire)
    }

    fn expect(&self, realms: usize) {
        self.opener.expect(realms);
    }

    fn warm_up(&self, options: &RealmOptions, runtime: &Arc<Verified>, now: Now) {
        self.opener.warm_up(options, runtime, now);
    }

    fn concurrency(&self) -> usize {
        self.opener.concurrency()
    }

    fn begin(
        &self,
        options: &RealmOptions,
        modules: &[Arc<Verified>],
        now: Now,
    ) -> Option<std::result::Result<Box<dyn OpeningRealm>, OpenError>> {
        let begun = self.opener.begin(options, modules, now)?;
        let mut wire = self.recorder.begin(options, modules, now);
        Some(match begun {
            Ok(opening) => Ok(Box::new(RecordedOpening { opening, wire })),
            Err(error) => {
                wire.opened(Err(error.to_string()));
                Err(error)
            }
        })
    }
}

/// A recorded realm that is being opened.
struct RecordedOpening {
    opening: Box<dyn OpeningRealm>,
    wire: Wire,
}

impl OpeningRealm for RecordedOpening {
    fn finish(self: Box<Self>, host: &mut dyn SyncHost) -> std::result::Result<OpenedRealm, OpenError> {
        let Self { opening, mut wire } = *self;
        recorded(opening.finish(&mut wire.host(host)), wire)
    }
}

/// Records how a realm was opened.
fn recorded(
    opened: std::result::Result<OpenedRealm, OpenError>,
    mut wire: Wire,
) -> std::result::Result<OpenedRealm, OpenError> {
    wire.opened(opened.as_ref().map(|opened| &opened.booted).map_err(ToString::to_string));
    let opened = opened?;
    Ok(OpenedRealm { realm: Box::new(RecordedRealm::new(opened.realm, wire)), ..opened })
}

/// Opens a tape for reading.
///
/// # Errors
///
/// Fails if the file does not exist or is not a tape.
pub fn open(path: &Path) -> Result<TapeReader<BufReader<File>>> {
    let file = File::open(path).map_err(|error| {
        let meant = if is_missing(&error) { meant_path(Path::new(""), path) } else { String::new() };
        let help = format!("{meant}a tape is a recording: pi --tape FILE makes one");
        UserError::failed(format!("{}: {error}", path.display())).help(help)
    })?;
    TapeReader::new(BufReader::new(file)).map_err(|error| unreadable(path, &error))
}

/// Converts the error of an unreadable tape.
pub fn unreadable(path: &Path, error: &TapeError) -> UserError {
    let message = format!("{}: {error} [{}]", path.display(), error.code().as_str());
    UserError::failed(message).help(error.help())
}

/// Converts the error of a tape that cannot be replayed.
pub fn unplayable(path: &Path, error: &ReplayError) -> UserError {
    let message = format!("{}: {error} [{}]", path.display(), error.code().as_str());
    UserError::failed(message).help(error.help())
}

/// Replays a tape on this program's engine and modules, in realms without hostcalls.
pub struct ReplayStage {
    opener: Box<dyn OpenRealm>,
    host_modules: Arc<Verified>,
    /// Modules that pi supplies, by name.
    supplied: BTreeMap<String, Arc<Verified>>,
    /// Name of the tape's extension to replace, and its replacement.
    replaced: Option<(String, Arc<Verified>)>,
}

impl ReplayStage {
    /// Prepares the modules of the tape at `path`. Nothing is fetched.
    ///
    /// # Errors
    ///
    /// Fails if the tape cannot be read, or if the host modules cannot be compiled.
    pub async fn prepare(environment: &Environment, path: &Path, isolation: Isolation) -> Result<Self> {
        let compiler = crate::compile::Compiler::new(environment);
        let host_modules = compiler.host_modules()?;
        let mut tape = open(path)?;
        let mut environment = environment.clone();
        environment.variables.insert("TZ".to_owned(), tape.header().time_zone.clone());
        let failed = |error: TapeError| unreadable(path, &error);
        let mut file = File::open(path).map_err(|error| failed(error.into()))?;
        let without = match TapeIndex::of(&mut file).map_err(failed)? {
            Some(index) => index.supplied().to_vec(),
            None => names_of(&mut tape, |set| set.source.is_none()).map_err(failed)?,
        };
        let supplier = Supplier::new(&environment, compiler.cache()).offline(true);
        let mut supplied = BTreeMap::new();
        for name in without {
            let is_of = |unit: &&pijs_extc::Unit| name == format!("pijs:supply:{}", unit.name());
            if let Some(unit) = Supply::pinned().units().find(is_of) {
                supplied.insert(name, supplier.unit(unit).await?);
            }
        }
        // A replay needs no seal: the code was admitted when it was recorded, and reaches nothing here.
        let opener = opener(isolation, &environment, Terms::default());
        Ok(Self { opener, host_modules, supplied, replaced: None })
    }

    /// Replaces the extension of the same name by the one at `entry`.
    ///
    /// # Errors
    ///
    /// Fails if the replacement does not compile, or if the tape at `path` has no extension of its name.
    pub async fn against(mut self, environment: &Environment, path: &Path, entry: &Path) -> Result<Self> {
        if !entry.exists() {
            let help = format!("{}name the folder or file of an extension", meant_path(Path::new(""), entry));
            return Err(UserError::failed(format!("the extension {} does not exist", entry.display())).help(help));
        }
        let compiler = crate::compile::Compiler::new(environment);
        let built = compiler.build(&format!("path:{}", entry.display()), &pijs_extc::Input::at(entry))?;
        let name = built.artifact.artifact().metadata.name.clone();
        let mut tape = open(path)?;
        let names = names_of(&mut tape, |set| set.source.is_some()).map_err(|error| unreadable(path, &error))?;
        if !names.contains(&name) {
            let message = format!("the tape has no extension `{name}`; it has: {}", names.join(", "));
            return Err(UserError::failed(message).help("name the folder or file of one of them"));
        }
        let metadata = &built.artifact.artifact().metadata;
        for modules in Supplier::new(environment, compiler.cache()).offline(true).for_extension(metadata).await? {
            self.supplied.insert(modules.artifact().metadata.name.clone(), modules);
        }
        self.replaced = Some((name, Arc::new(built.artifact)));
        Ok(self)
    }
}

/// Returns the names of the tape's module sets that `is_wanted` selects.
fn names_of(
    tape: &mut TapeReader<impl io::Read>,
    is_wanted: impl Fn(&ModuleSet) -> bool,
) -> Result<Vec<String>, TapeError> {
    let mut names: Vec<String> = Vec::new();
    for record in tape {
        let record = match record {
            Err(error) if error.is_cut() => break,
            record => record?,
        };
        if let Event::Open(opening) = record.event {
            for set in opening.modules {
                if is_wanted(&set) && !names.contains(&set.name) {
                    names.push(set.name);
                }
            }
        }
    }
    Ok(names)
}

impl ReplayServices for ReplayStage {
    fn engine(&self) -> EngineBuild {
        self.host_modules.artifact().metadata.engine.clone()
    }

    fn host_modules(&self) -> String {
        code_digest(self.host_modules.artifact())
    }

    fn replacement(&self, recorded: &ModuleSet) -> Option<Arc<Verified>> {
        let (name, modules) = self.replaced.as_ref()?;
        (*name == recorded.name).then(|| Arc::clone(modules))
    }

    fn modules(&self, modules: &ModuleSet) -> Option<Arc<Verified>> {
        if self.host_modules.artifact().metadata.name == modules.name {
            return Some(Arc::clone(&self.host_modules));
        }
        self.supplied.get(&modules.name).cloned()
    }

    fn positions(&self, artifact: &Artifact) -> Option<Box<dyn PositionMap>> {
        Some(Box::new(SourceMaps::new(artifact)))
    }

    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<(Box<dyn Realm>, Yield), String> {
        let opened = self.opener.open(options, modules, now, host).map_err(|error| error.to_string())?;
        Ok((opened.realm, opened.booted))
    }
}

/// Finds the path of a configuration's tape.
pub(crate) fn path_of(environment: &Environment, config: &SessionConfig) -> Option<PathBuf> {
    config.tape.as_ref().map(|path| environment.dirs.cwd.join(path))
}
