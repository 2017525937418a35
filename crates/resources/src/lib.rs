//! Skills, prompt templates, themes and context files: what a session reads beside extensions.
//!
//! [`Resources`] is loaded once for a session ([`Resources::load`]) and grows by what extensions name
//! in `resources_discover` ([`Resources::extend`]). Which files there are is found by `pijs-packages`; of two things with
//! one name the first counts. A file that cannot be read or understood is left out and becomes a [`Problem`].

mod markdown;
mod template;

pub use template::PromptTemplate;

use markdown::Document;
use pijs_durable::read_judged;
use pijs_hostcall::Places;
use pijs_packages::{DiscoverOptions, LeftOut, ResourceKind, ResourceOptions, resolve_resources, resource_files};
use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Longest context file, in bytes: more than any model reads with profit, and it goes out with every request.
const LONGEST_CONTEXT: u64 = 1 << 20;

/// Names of context files in one folder; the first that is there counts.
const CONTEXT_FILES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];

/// A file that is told to the model at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextFile {
    /// Where it is.
    pub path: String,
    /// What it says.
    pub content: String,
}

/// Instructions that the model loads when it needs them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Lower case, with hyphens.
    pub name: String,
    /// When it is of use.
    pub description: String,
    /// The Markdown file.
    pub file_path: String,
    /// What relative paths in it are seen from.
    pub base_dir: String,
    /// Where it comes from.
    #[serde(default)]
    pub source_info: Value,
    /// Only people call it.
    #[serde(default)]
    pub disable_model_invocation: bool,
}

/// A file that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub message: String,
}

/// Where resources are.
#[derive(Debug, Clone, Default)]
pub struct ResourcePlaces {
    /// The user's pi folder, for context files, `SYSTEM.md` and `APPEND_SYSTEM.md`; `None`: nothing of the user's is read.
    pub agent_dir: Option<PathBuf>,
    /// The project, for context files and, where it is trusted, its `.pi`; `None`: nothing of the project's is read.
    pub project: Option<PathBuf>,
    /// Whether context files are read.
    pub context_files: bool,
    /// Whether the project's own `.pi` counts: the folder is trusted.
    pub trusted: bool,
    /// What extensions are told of that: a folder that brings nothing to be trusted counts as trusted.
    pub told_trusted: bool,
    /// What no link leads the model to; `None`: links are followed everywhere.
    pub protected: Option<Places>,
    /// Folders, settings and packages that are searched; `None`: none is.
    pub found_by: Option<(DiscoverOptions, ResourceOptions)>,
    /// Everything, read before: for a replay, which reads nothing.
    pub read: Option<Box<Resources>>,
}

impl ResourcePlaces {
    /// The theme files that are found there.
    pub fn themes(&self) -> Vec<PathBuf> {
        let found = self.found_by.as_ref().map(|(options, asked)| resolve_resources(options, asked));
        found.map(|found| found.themes.into_iter().map(|theme| theme.path).collect()).unwrap_or_default()
    }
}

/// What a session has.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Resources {
    /// In the order they were found.
    pub skills: Vec<Skill>,
    /// In the order they were found.
    pub prompts: Vec<PromptTemplate>,
    /// From the user's to the nearest.
    pub context_files: Vec<ContextFile>,
    /// Text of `SYSTEM.md`, in place of the built-in prompt.
    pub system_prompt: Option<String>,
    /// Text of `APPEND_SYSTEM.md`.
    pub appended_prompt: Option<String>,
    /// Theme files, in the order they were found.
    pub themes: Vec<PathBuf>,
    /// What was left out.
    #[serde(skip)]
    pub problems: Vec<Problem>,
    /// What was left out of it since nobody may read it.
    #[serde(skip)]
    withheld: Vec<Problem>,
    #[serde(skip)]
    protected: Option<Places>,
    /// What extensions named.
    #[serde(skip)]
    named: Named,
    /// Where the skills' files lie, links resolved.
    #[serde(skip)]
    skill_places: BTreeSet<PathBuf>,
    /// The skills by their names.
    #[serde(skip)]
    skill_names: BTreeMap<String, usize>,
}

/// Places that extensions named, each once: whoever names a folder again and again does not have it searched each time.
#[derive(Debug, Clone, Default)]
struct Named(BTreeSet<(&'static str, PathBuf)>);

/// How many there may be.
const MOST_NAMED: usize = 4096;

impl Named {
    fn is_new(&mut self, kind: ResourceKind, place: &Path) -> bool {
        if !guard!(ResourcesTotalSize) {
            return true;
        }
        self.0.len() < MOST_NAMED && self.0.insert((kind.key(), place.to_owned()))
    }
}

/// Prompt templates that a session has, and what they take together: each is read at the start and kept.
const MOST_PROMPTS: usize = 4096;
const LARGEST_PROMPTS: usize = 64 << 20;

impl Resources {
    /// Reads everything. Nothing here fails: what cannot be read is a problem.
    pub fn load(places: &ResourcePlaces) -> Self {
        if let Some(read) = &places.read {
            return (**read).clone();
        }
        let mut found = Self { protected: places.protected.clone(), ..Self::default() };
        if let Some((options, asked)) = &places.found_by {
            let files = resolve_resources(options, asked);
            for skill in files.skills {
                let info = skill.from.info(&skill.path);
                found.add_skill(&skill.path, info);
            }
            for prompt in files.prompts {
                let info = prompt.from.info(&prompt.path);
                found.add_prompt(&prompt.path, info);
            }
            found.themes = files.themes.into_iter().map(|theme| theme.path).collect();
            found.withheld.extend(links_out(&files.left_out));
        }
        found.system_prompt = found.prompt_file(places, "SYSTEM.md");
        found.appended_prompt = found.prompt_file(places, "APPEND_SYSTEM.md");
        if places.context_files {
            let (context_files, problems) = context_files(places);
            found.context_files = context_files;
            found.problems.extend(problems);
        }
        found
    }

    /// Context files that the model is not told, and links to what nobody reads, and why: its user expects it to know them.
    pub fn untold(&self) -> impl Iterator<Item = &Problem> {
        let is_context = |name: &std::ffi::OsStr| CONTEXT_FILES.iter().any(|known| name == *known);
        let context = self.problems.iter().filter(move |problem| problem.path.file_name().is_some_and(is_context));
        context.chain(&self.withheld)
    }

    /// Reads a document. What it is kept from is noted: a link leads to what is protected from everybody. Who trusts a project
    /// lets it say where its texts lie, and has not read where that is.
    fn document(&mut self, path: &Path) -> Result<Document, Option<String>> {
        self.text(path, markdown::LONGEST).and_then(|text| Document::parse(&text).map_err(Some))
    }

    /// Reads a text. The error is a sentence, or nothing where it is noted already.
    fn text(&mut self, path: &Path, limit: u64) -> Result<String, Option<String>> {
        read(self.protected.as_ref(), path, limit).map_err(|unread| match unread {
            Unread::Withheld(problem) => {
                self.withheld.push(problem);
                None
            }
            Unread::Failed(message) => Some(message),
        })
    }

    /// Adds what an extension named. `path` is the extension's file.
    pub fn extend(&mut self, path: &str, skills: &[PathBuf], prompts: &[PathBuf], themes: &[PathBuf]) {
        let file = Path::new(path);
        let name = file.file_stem().map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let base_dir = file.parent().unwrap_or(Path::new(""));
        let source = format!("extension:{name}");
        let info = |path: &Path| json!({"path": path, "source": source, "scope": "temporary", "origin": "top-level", "baseDir": base_dir});
        let mut files = |kind, given: &[PathBuf]| -> Vec<PathBuf> {
            let places = given.iter().map(|given| without_dots(&base_dir.join(given)));
            let new: Vec<PathBuf> = places.filter(|place| self.named.is_new(kind, place)).collect();
            new.iter().flat_map(|place| resource_files(kind, place)).collect()
        };
        let skills = files(ResourceKind::Skills, skills);
        let prompts = files(ResourceKind::Prompts, prompts);
        let themes = files(ResourceKind::Themes, themes);
        for skill in skills {
            self.add_skill(&skill, info(&skill));
        }
        for prompt in prompts {
            self.add_prompt(&prompt, info(&prompt));
        }
        self.themes.extend(themes);
    }

    fn add_skill(&mut self, path: &Path, source_info: Value) {
        let is_declared = path.file_name().is_some_and(|name| name == "SKILL.md");
        let document = match self.document(path) {
            Ok(document) => document,
            Err(message) => {
                let message = message.filter(|_| is_declared);
                self.problems.extend(message.map(|message| Problem { path: path.to_owned(), message }));
                return;
            }
        };
        let Some(description) = document.text("description").filter(|text| !text.trim().is_empty()) else {
            if is_declared {
                self.problems.push(Problem { path: path.to_owned(), message: "description is required".to_owned() });
            }
            return;
        };
        let base_dir = path.parent().unwrap_or(Path::new(""));
        let folder_name = || base_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = document.text("name").filter(|name| !name.is_empty()).unwrap_or_else(folder_name);
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.skill_places.contains(&place) {
            return;
        }
        if let Some(known) = self.skill_names.get(&name) {
            let message = format!("the skill {name:?} is already taken from {}", self.skills[*known].file_path);
            self.problems.push(Problem { path: path.to_owned(), message });
            return;
        }
        self.skill_places.insert(place);
        self.skill_names.insert(name.clone(), self.skills.len());
        self.skills.push(Skill {
            name,
            description,
            file_path: path.display().to_string(),
            base_dir: base_dir.display().to_string(),
            source_info,
            disable_model_invocation: document.flag("disable-model-invocation"),
        });
    }

    fn add_prompt(&mut self, path: &Path, source_info: Value) {
        match self.document(path) {
            Ok(document) => {
                let template = PromptTemplate::new(path, document, source_info);
                if self.prompts.iter().any(|known| known.name == template.name) {
                    return;
                }
                let bytes: usize = self.prompts.iter().map(|known| known.content.len()).sum();
                let has_room = self.prompts.len() < MOST_PROMPTS && bytes + template.content.len() <= LARGEST_PROMPTS;
                if has_room || !guard!(ResourcesTotalSize) {
                    self.prompts.push(template);
                } else {
                    let message = format!(
                        "there are more than {MOST_PROMPTS} prompt templates, or {LARGEST_PROMPTS} bytes of them"
                    );
                    self.problems.push(Problem { path: path.to_owned(), message });
                }
            }
            Err(message) => {
                self.problems.extend(message.map(|message| Problem { path: path.to_owned(), message }));
            }
        }
    }

    /// The project's own, where it is trusted; or the user's.
    fn prompt_file(&mut self, places: &ResourcePlaces, name: &str) -> Option<String> {
        let project = places.project.as_ref().filter(|_| places.trusted).map(|project| project.join(".pi"));
        let folders = project.into_iter().chain(places.agent_dir.clone());
        let path = folders.map(|folder| folder.join(name)).find(|path| path.exists())?;
        let text = self.text(&path, longest_context()).ok()?;
        Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
    }

    /// What a text that a person typed stands for: `/skill:NAME ARGS` and `/TEMPLATE ARGS` are replaced.
    ///
    /// # Errors
    ///
    /// The file and what is wrong with it, when a skill cannot be read or a template becomes too long; the text then stays
    /// as it is.
    pub fn expand(&self, text: &str) -> Result<String, Problem> {
        if let Some(rest) = text.strip_prefix("/skill:") {
            let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(skill) = self.skills.iter().find(|skill| skill.name == name) {
                let path = PathBuf::from(&skill.file_path);
                // It may have become a link since.
                let text = read(self.protected.as_ref(), &path, markdown::LONGEST).map_err(|unread| match unread {
                    Unread::Withheld(problem) => problem,
                    Unread::Failed(message) => Problem { path: path.clone(), message },
                })?;
                let document = Document::parse(&text).map_err(|message| Problem { path, message })?;
                let block = format!(
                    "<skill name=\"{}\" location=\"{}\">\nReferences are relative to {}.\n\n{}\n</skill>",
                    skill.name,
                    skill.file_path,
                    skill.base_dir,
                    document.body.trim()
                );
                let args = args.trim();
                return Ok(if args.is_empty() { block } else { format!("{block}\n\n{args}") });
            }
        }
        let expanded = template::expand(text, &self.prompts).map_err(|template| Problem {
            path: template.source_info["path"].as_str().unwrap_or(&template.name).into(),
            message: format!("with these arguments its text has more than {} bytes", template::LONGEST),
        })?;
        Ok(expanded.unwrap_or_else(|| text.to_owned()))
    }

    /// Templates and skills as `pi.getCommands()` lists them.
    pub fn commands(&self) -> Vec<Value> {
        let prompts = self.prompts.iter().map(|prompt| {
            json!({"name": prompt.name, "description": prompt.description, "source": "prompt", "sourceInfo": prompt.source_info})
        });
        let skills = self.skills.iter().map(|skill| {
            json!({"name": format!("skill:{}", skill.name), "description": skill.description, "source": "skill", "sourceInfo": skill.source_info})
        });
        prompts.chain(skills).collect()
    }
}

/// Files of packages that their user is told of by name.
const MOST_LINKS_NAMED: usize = 8;

/// Says which files of packages are left out, since links lead out of the package.
fn links_out(left_out: &[LeftOut]) -> impl Iterator<Item = Problem> {
    let more = left_out.len().saturating_sub(MOST_LINKS_NAMED);
    left_out.iter().take(MOST_LINKS_NAMED).enumerate().map(move |(index, LeftOut { path, real, package })| {
        let is_last = more > 0 && index + 1 == MOST_LINKS_NAMED;
        let others = if is_last { format!("; {more} more files are left out so") } else { String::new() };
        let message = format!(
            "it is a link that leads out of the package {}, to {}, and is left out{others}",
            package.display(),
            real.display()
        );
        Problem { path: path.clone(), message }
    })
}

/// Takes off `.` and `..` by name, as `path.resolve` does.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Why a text is not read.
enum Unread {
    /// Nobody reads what lies there.
    Withheld(Problem),
    /// Something else is wrong; the text is a sentence.
    Failed(String),
}

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(match error.kind() {
            std::io::ErrorKind::FileTooLarge => format!("it is {error}"),
            _ => error.to_string(),
        })
    }
}

/// Reads a text of at most `limit` bytes, unless it lies where nobody reads: where the file lies that was opened counts, and
/// not what it was called.
fn read(protected: Option<&Places>, path: &Path, limit: u64) -> Result<String, Unread> {
    let protected = protected.filter(|_| guard!(ResourcesProtected));
    let bytes = read_judged(path, limit, |real| match protected {
        Some(places) if is_withheld(places, real) => {
            let message = format!("it is a link to {}, which is protected", real.display());
            Err(Unread::Withheld(Problem { path: path.to_owned(), message }))
        }
        _ => Ok(()),
    })?;
    String::from_utf8(bytes).map_err(|error| Unread::Failed(error.to_string()))
}

fn is_withheld(places: &Places, real: &Path) -> bool {
    // What is installed lies in a protected place, and is no secret; nor is a project of which its user says that it is one.
    let is_project = || places.is_withheld(&places.project) && real.starts_with(&places.project);
    places.is_withheld(real) && !places.is_installed(real) && !is_project()
}

/// The user's, then those of the folders above the project, the outermost first; and what is wrong with some.
fn context_files(places: &ResourcePlaces) -> (Vec<ContextFile>, Vec<Problem>) {
    let above = places.project.iter().flat_map(|project| project.ancestors());
    let mut folders: Vec<(&Path, bool)> = above.map(|folder| (folder, !places.trusted)).collect();
    folders.reverse();
    let users = places.agent_dir.as_deref().map(|folder| (folder, false));
    let (mut found, mut problems): (Vec<ContextFile>, Vec<Problem>) = (Vec::new(), Vec::new());
    let home = places.protected.as_ref().map(|places| places.home.as_path());
    for (folder, is_foreign) in users.into_iter().chain(folders) {
        let Some(path) = CONTEXT_FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
            continue;
        };
        match read(places.protected.as_ref(), &path, longest_context()) {
            Ok(_) if is_foreign && leads_out(folder, &path, home) && guard!(ResourcesContextLinks) => {
                let message =
                    "it is a link that leads out of the project, and is read once you run: pi trust".to_owned();
                problems.push(Problem { path, message });
            }
            Ok(content) => {
                let path = path.display().to_string();
                if !found.iter().any(|known| known.path == path) {
                    let content = content.strip_prefix('\u{feff}').unwrap_or(&content).to_owned();
                    found.push(ContextFile { path, content });
                }
            }
            Err(Unread::Withheld(problem)) => problems.push(problem),
            Err(Unread::Failed(message)) => problems.push(Problem { path, message }),
        }
    }
    (found, problems)
}

/// Whether a file of a folder is a link to something outside of the repository that the folder is in, or outside of the
/// folder where there is none: what a cloned project says must not be what its user keeps elsewhere. A repository that the
/// user's home is kept in is nobody's in particular.
fn leads_out(folder: &Path, path: &Path, home: Option<&Path>) -> bool {
    let is_home = |above: &Path| home.is_some_and(|home| home.starts_with(above));
    let mut own = folder.ancestors().take_while(|above| !is_home(above) || !guard!(PackagesEnclosingHome));
    let top = own.find(|above| above.join(".git").exists()).unwrap_or(folder);
    match (fs::canonicalize(top), fs::canonicalize(path)) {
        (Ok(top), Ok(real)) => !real.starts_with(top),
        _ => true,
    }
}

/// Bytes of a context file, at most.
fn longest_context() -> u64 {
    if guard!(ResourcesContextSize) { LONGEST_CONTEXT } else { u64::MAX }
}

#[cfg(test)]
mod tests;
