//! Resources of a session other than extensions: skills, prompt templates, themes and context files.
//!
//! [`Resources::load`] reads them once for a session, and [`Resources::extend`] adds those that extensions name in
//! `resources_discover`. `pijs-packages` finds the files. If two resources have the same name, the first is used. A file that
//! cannot be read or parsed is skipped and becomes a [`ResourceProblem`].

mod markdown;
mod template;

pub use template::PromptTemplate;

use markdown::MarkdownDocument;
use pijs_durable::{CheckedFiles, FileIdentity, read_judged};
use pijs_hostcall::Places;
use pijs_packages::{DiscoverOptions, LeftOut, ResourceKind, ResourceOptions, resolve_resources, resource_files};
use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Maximum size of a context file in bytes. It is part of every request, so a larger one is certainly a mistake.
const MAX_CONTEXT_BYTES: u64 = 1 << 20;

/// Names of context files. The first one that exists in a folder is used.
const CONTEXT_FILES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];

/// A context file, which is part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextFile {
    /// Path of the file.
    pub path: String,
    /// Content of the file.
    pub content: String,
}

/// A skill: instructions that the model loads when it needs them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Name in lower case, with hyphens.
    pub name: String,
    /// Description of when the model should use the skill.
    pub description: String,
    /// Path of the Markdown file.
    pub file_path: String,
    /// Base of the relative paths in the file.
    pub base_dir: String,
    /// Origin of the skill, in pi's format.
    #[serde(default)]
    pub source_info: Value,
    /// Whether only the user can invoke the skill.
    #[serde(default)]
    pub disable_model_invocation: bool,
}

/// A skipped file and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceProblem {
    /// Path of the file.
    pub path: PathBuf,
    /// Description of the problem.
    pub message: String,
}

impl ResourceProblem {
    fn exchanged(path: &Path) -> Self {
        Self { path: path.to_owned(), message: CheckedFiles::EXCHANGED.to_owned() }
    }
}

/// Locations of resources.
#[derive(Debug, Clone, Default)]
pub struct ResourcePlaces {
    /// The user's pi folder with context files, `SYSTEM.md` and `APPEND_SYSTEM.md`; `None` reads none of them.
    pub agent_dir: Option<PathBuf>,
    /// The project with its context files and, if it is trusted, its `.pi`; `None` reads none of them.
    pub project: Option<PathBuf>,
    /// Whether context files are read.
    pub context_files: bool,
    /// Whether the project is trusted, so that its `.pi` is read.
    pub trusted: bool,
    /// Trust that is reported to extensions: a folder without anything that needs trust is reported as trusted.
    pub told_trusted: bool,
    /// Protected locations that links must not lead to; `None` allows all links.
    pub protected: Option<Places>,
    /// Folders, settings and packages to search; `None` searches nothing.
    pub found_by: Option<(DiscoverOptions, ResourceOptions)>,
    /// Files that were checked when an extension started this `pi`: no others are read for options; `None` if the user started it.
    pub checked: Option<CheckedFiles>,
    /// Recorded resources for a replay, which reads no files; `None` reads files.
    pub read: Option<Box<Resources>>,
}

impl ResourcePlaces {
    /// Returns the theme files at these locations.
    pub fn themes(&self) -> Vec<PathBuf> {
        let found = self.found_by.as_ref().map(|(options, asked)| resolve_resources(options, asked));
        found.map(|found| found.themes.into_iter().map(|theme| theme.path).collect()).unwrap_or_default()
    }

    fn naming(&self, path: &Path, source_info: &Value) -> Naming<'_> {
        naming_on_command_line((self.checked.as_ref(), self.protected.as_ref()), path, source_info)
    }
}

/// Returns the author of a reference that is not an extension's own: of an option, if an extension started this `pi`, or the user.
/// Installed packages, which an option may name as well, are not exchanged.
fn naming_on_command_line<'a>(
    (checked, protected): (Option<&'a CheckedFiles>, Option<&Places>),
    path: &Path,
    source_info: &Value,
) -> Naming<'a> {
    let is_installed = || protected.is_some_and(|places| places.is_installed(&without_dots(path)));
    match checked.filter(|_| source_info["scope"] == "temporary" && !is_installed()) {
        Some(checked) => Naming::Started(checked),
        None => Naming::User,
    }
}

/// The resources of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Skills in order of discovery.
    pub skills: Vec<Skill>,
    /// Prompt templates in order of discovery.
    pub prompts: Vec<PromptTemplate>,
    /// Context files: the user's, then those of the project from the outermost folder to the innermost.
    pub context_files: Vec<ContextFile>,
    /// Text of `SYSTEM.md`, which replaces the built-in prompt; `None` without the file.
    pub system_prompt: Option<String>,
    /// Text of `APPEND_SYSTEM.md`; `None` without the file.
    pub appended_prompt: Option<String>,
    /// Theme files in order of discovery.
    pub themes: Vec<PathBuf>,
    /// Skipped files.
    #[serde(skip)]
    pub problems: Vec<ResourceProblem>,
    /// Skipped files at protected locations.
    #[serde(skip)]
    withheld: Vec<ResourceProblem>,
    #[serde(skip)]
    protected: Option<Places>,
    /// Files that were checked when an extension started this `pi`.
    #[serde(skip)]
    checked: Option<CheckedFiles>,
    /// Locations that extensions named.
    #[serde(skip)]
    named: NamedLocations,
    /// Files that an extension named without permission.
    #[serde(skip)]
    refused: BTreeSet<PathBuf>,
    /// Canonical paths of the skill files.
    #[serde(skip)]
    skill_files: BTreeSet<PathBuf>,
    /// Indices of the skills by name.
    #[serde(skip)]
    skill_names: BTreeMap<String, usize>,
}

/// Prefix of `source` for resources that an extension named.
const OF_EXTENSION: &str = "extension:";

/// Author of a reference to a file, which determines the files that it may name.
#[derive(Clone, Copy)]
enum Naming<'a> {
    /// The user, or a project or package that the user chose.
    User,
    /// An extension, with a predicate for the files that it may name.
    Extension(&'a dyn Fn(&Path) -> bool),
    /// An extension, on the command line of the `pi` that it started, with the files that were checked before the start.
    Started(&'a CheckedFiles),
}

impl Naming<'_> {
    fn admits(self, real: &Path, file: FileIdentity) -> bool {
        match self {
            Self::User => true,
            Self::Extension(admits) => admits(real) || !guard!(ResourcesNamed),
            Self::Started(checked) => checked.covers(file, real) || !guard!(ResourcesChecked),
        }
    }
}

/// Locations that extensions named. Each location is searched once.
#[derive(Debug, Clone, Default)]
struct NamedLocations(BTreeSet<(&'static str, PathBuf)>);

/// Maximum number of locations that extensions may name in a session.
const MAX_NAMED: usize = 4096;

impl NamedLocations {
    fn is_new(&mut self, kind: ResourceKind, place: &Path) -> bool {
        if !guard!(ResourcesTotalSize) {
            return true;
        }
        self.0.len() < MAX_NAMED && self.0.insert((kind.key(), place.to_owned()))
    }
}

/// Maximum number of prompt templates in a session. All are read at the start and kept in memory.
const MAX_PROMPTS: usize = 4096;
/// Maximum total size of prompt templates in bytes.
const MAX_PROMPT_BYTES: usize = 64 << 20;

impl Resources {
    /// Reads all resources. Never fails: a file that cannot be read becomes a problem.
    pub fn load(places: &ResourcePlaces) -> Self {
        if let Some(read) = &places.read {
            return (**read).clone();
        }
        let (protected, checked) = (places.protected.clone(), places.checked.clone());
        let mut found = Self { protected, checked, ..Self::default() };
        if let Some((options, asked)) = &places.found_by {
            let files = resolve_resources(options, asked);
            for skill in files.skills {
                let info = skill.from.info(&skill.path);
                let naming = places.naming(&skill.path, &info);
                found.add_skill(&skill.path, info, naming);
            }
            for prompt in files.prompts {
                let info = prompt.from.info(&prompt.path);
                let naming = places.naming(&prompt.path, &info);
                found.add_prompt(&prompt.path, info, naming);
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

    /// Returns the problems of skipped context files and of links to protected locations. They are reported because the user
    /// expects the model to know that content.
    pub fn skipped_context(&self) -> impl Iterator<Item = &ResourceProblem> {
        let is_context = |name: &std::ffi::OsStr| CONTEXT_FILES.iter().any(|known| name == *known);
        let context = self.problems.iter().filter(move |problem| problem.path.file_name().is_some_and(is_context));
        context.chain(&self.withheld)
    }

    /// Reads a document. A link to a protected location is recorded and not read: a user who trusts a project has not reviewed
    /// the targets of its links.
    fn document(&mut self, path: &Path, naming: Naming<'_>) -> Result<MarkdownDocument, Option<String>> {
        self.text(path, markdown::MAX_BYTES, naming).and_then(|text| MarkdownDocument::parse(&text).map_err(Some))
    }

    /// Reads a text. The error is a message, or `None` if the problem is already recorded.
    fn text(&mut self, path: &Path, limit: u64, naming: Naming<'_>) -> Result<String, Option<String>> {
        read((self.protected.as_ref(), naming), path, limit).map_err(|unread| match unread {
            ResourceReadError::Withheld(problem) => {
                self.withheld.push(problem);
                None
            }
            ResourceReadError::Refused(real) => {
                match naming {
                    Naming::Started(_) => self.withheld.push(ResourceProblem::exchanged(path)),
                    Naming::User | Naming::Extension(_) => drop(self.refused.insert(real)),
                }
                None
            }
            ResourceReadError::Failed(message) => Some(message),
        })
    }

    /// Adds the resources that an extension named. `path` is the extension's file; `admits` decides whether the extension may
    /// name a file, given its canonical path. Returns the files that are skipped because the extension may not name them.
    pub fn extend(
        &mut self,
        path: &str,
        [skills, prompts, themes]: [&[PathBuf]; 3],
        admits: &dyn Fn(&Path) -> bool,
    ) -> Vec<PathBuf> {
        let naming = Naming::Extension(admits);
        let file = Path::new(path);
        let name = file.file_stem().map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let base_dir = file.parent().unwrap_or(Path::new(""));
        let source = format!("{OF_EXTENSION}{name}");
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
            self.add_skill(&skill, info(&skill), naming);
        }
        for prompt in prompts {
            self.add_prompt(&prompt, info(&prompt), naming);
        }
        for theme in themes {
            match fs::canonicalize(&theme).map(|real| (admits(&real) || !guard!(ResourcesNamed), real)) {
                Ok((false, real)) => drop(self.refused.insert(real)),
                _ => self.themes.push(theme),
            }
        }
        std::mem::take(&mut self.refused).into_iter().collect()
    }

    fn add_skill(&mut self, path: &Path, source_info: Value, naming: Naming<'_>) {
        let is_declared = path.file_name().is_some_and(|name| name == "SKILL.md");
        let document = match self.document(path, naming) {
            Ok(document) => document,
            Err(message) => {
                let message = message.filter(|_| is_declared);
                self.problems.extend(message.map(|message| ResourceProblem { path: path.to_owned(), message }));
                return;
            }
        };
        let Some(description) = document.text("description").filter(|text| !text.trim().is_empty()) else {
            if is_declared {
                self.problems
                    .push(ResourceProblem { path: path.to_owned(), message: "description is required".to_owned() });
            }
            return;
        };
        let base_dir = path.parent().unwrap_or(Path::new(""));
        let folder_name = || base_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = document.text("name").filter(|name| !name.is_empty()).unwrap_or_else(folder_name);
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.skill_files.contains(&place) {
            return;
        }
        if let Some(known) = self.skill_names.get(&name) {
            let message = format!("the skill {name:?} already exists in {}", self.skills[*known].file_path);
            self.problems.push(ResourceProblem { path: path.to_owned(), message });
            return;
        }
        self.skill_files.insert(place);
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

    fn add_prompt(&mut self, path: &Path, source_info: Value, naming: Naming<'_>) {
        match self.document(path, naming) {
            Ok(document) => {
                let template = PromptTemplate::new(path, document, source_info);
                if self.prompts.iter().any(|known| known.name == template.name) {
                    return;
                }
                let bytes: usize = self.prompts.iter().map(|known| known.content.len()).sum();
                let has_room = self.prompts.len() < MAX_PROMPTS && bytes + template.content.len() <= MAX_PROMPT_BYTES;
                if has_room || !guard!(ResourcesTotalSize) {
                    self.prompts.push(template);
                } else {
                    let message = format!(
                        "there are more than {MAX_PROMPTS} prompt templates, or {MAX_PROMPT_BYTES} bytes of them"
                    );
                    self.problems.push(ResourceProblem { path: path.to_owned(), message });
                }
            }
            Err(message) => {
                self.problems.extend(message.map(|message| ResourceProblem { path: path.to_owned(), message }));
            }
        }
    }

    /// Reads a prompt file of the project if the project is trusted, otherwise of the user.
    fn prompt_file(&mut self, places: &ResourcePlaces, name: &str) -> Option<String> {
        let project = places.project.as_ref().filter(|_| places.trusted).map(|project| project.join(".pi"));
        let folders = project.into_iter().chain(places.agent_dir.clone());
        let path = folders.map(|folder| folder.join(name)).find(|path| path.exists())?;
        let text = self.text(&path, longest_context(), Naming::User).ok()?;
        Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
    }

    /// Expands `/skill:NAME ARGS` and `/TEMPLATE ARGS` in a text that the user typed.
    ///
    /// # Errors
    ///
    /// Fails if a skill cannot be read or a template becomes too long. The caller then keeps the text unexpanded.
    pub fn expand(&self, text: &str) -> Result<String, ResourceProblem> {
        if let Some(rest) = text.strip_prefix(SKILL_PREFIX) {
            let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(skill) = self.skills.iter().find(|skill| skill.name == name) {
                let path = PathBuf::from(&skill.file_path);
                // The file may have been replaced by a link since discovery.
                let is_of_extension =
                    skill.source_info["source"].as_str().is_some_and(|from| from.starts_with(OF_EXTENSION));
                let as_before = |real: &Path| self.skill_files.contains(real);
                let naming = match is_of_extension {
                    true => Naming::Extension(&as_before),
                    false => {
                        let known = (self.checked.as_ref(), self.protected.as_ref());
                        naming_on_command_line(known, &path, &skill.source_info)
                    }
                };
                let text =
                    read((self.protected.as_ref(), naming), &path, markdown::MAX_BYTES).map_err(
                        |unread| match unread {
                            ResourceReadError::Withheld(problem) => problem,
                            ResourceReadError::Refused(_) if matches!(naming, Naming::Started(_)) => {
                                ResourceProblem::exchanged(&path)
                            }
                            ResourceReadError::Refused(real) => {
                                let message =
                                    format!("it now links to {}; restart pi to use this target", real.display());
                                ResourceProblem { path: path.clone(), message }
                            }
                            ResourceReadError::Failed(message) => ResourceProblem { path: path.clone(), message },
                        },
                    )?;
                let document = MarkdownDocument::parse(&text).map_err(|message| ResourceProblem { path, message })?;
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
        let expanded = template::expand(text, &self.prompts).map_err(|template| ResourceProblem {
            path: template.source_info["path"].as_str().unwrap_or(&template.name).into(),
            message: format!("with these arguments its text has more than {} bytes", template::MAX_EXPANSION_BYTES),
        })?;
        Ok(expanded.unwrap_or_else(|| text.to_owned()))
    }

    /// Returns templates and skills as `pi.getCommands()` lists them.
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

/// Prefix of a prompt that names a skill.
const SKILL_PREFIX: &str = "/skill:";

/// Returns whether [`Resources::expand`] may read a file for a text.
pub fn reads_skill(text: &str) -> bool {
    text.starts_with(SKILL_PREFIX)
}

/// Maximum number of skipped package files that are reported by name.
const MAX_LINKS_REPORTED: usize = 8;

/// Returns the problems of package files that are links out of their package.
fn links_out(left_out: &[LeftOut]) -> impl Iterator<Item = ResourceProblem> {
    let more = left_out.len().saturating_sub(MAX_LINKS_REPORTED);
    left_out.iter().take(MAX_LINKS_REPORTED).enumerate().map(move |(index, LeftOut { path, real, package })| {
        let is_last = more > 0 && index + 1 == MAX_LINKS_REPORTED;
        let others = match more {
            _ if !is_last => String::new(),
            1 => "; 1 more file is skipped for this reason".to_owned(),
            more => format!("; {more} more files are skipped for this reason"),
        };
        let message = format!(
            "it links to {}, outside the package {}, and is skipped{others}",
            real.display(),
            package.display()
        );
        ResourceProblem { path: path.clone(), message }
    })
}

/// Removes `.` and `..` lexically, like `path.resolve`.
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

/// Reasons why a text is not read.
enum ResourceReadError {
    /// The file is protected.
    Withheld(ResourceProblem),
    /// The extension may not name the file; contains its canonical path.
    Refused(PathBuf),
    /// Another error, with its message.
    Failed(String),
}

impl From<std::io::Error> for ResourceReadError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(match error.kind() {
            std::io::ErrorKind::FileTooLarge => format!("it is {error}"),
            _ => error.to_string(),
        })
    }
}

/// Reads a text of at most `limit` bytes unless the file is protected. Checks the canonical path of the opened file instead of
/// the given path.
fn read(
    (protected, naming): (Option<&Places>, Naming<'_>),
    path: &Path,
    limit: u64,
) -> Result<String, ResourceReadError> {
    let protected = protected.filter(|_| guard!(ResourcesProtected));
    let bytes = read_judged(path, limit, |real, file| match protected {
        Some(places) if is_withheld(places, real) => {
            let message = format!("it is a link to {}, which is protected", real.display());
            Err(ResourceReadError::Withheld(ResourceProblem { path: path.to_owned(), message }))
        }
        _ if !naming.admits(real, file.id) => Err(ResourceReadError::Refused(real.to_owned())),
        _ => Ok(()),
    })?;
    String::from_utf8(bytes).map_err(|error| ResourceReadError::Failed(error.to_string()))
}

fn is_withheld(places: &Places, real: &Path) -> bool {
    // Installed packages are in a protected folder but public. A user may also run a session inside a protected folder.
    let is_project = || places.is_withheld(&places.project) && real.starts_with(&places.project);
    places.is_withheld(real) && !places.is_installed(real) && !is_project()
}

/// Reads context files: the user's, then those of the project's parent folders from the outermost to the project itself. Returns
/// them with the problems.
fn context_files(places: &ResourcePlaces) -> (Vec<ContextFile>, Vec<ResourceProblem>) {
    let above = places.project.iter().flat_map(|project| project.ancestors());
    let mut folders: Vec<(&Path, bool)> = above.map(|folder| (folder, !places.trusted)).collect();
    folders.reverse();
    let users = places.agent_dir.as_deref().map(|folder| (folder, false));
    let (mut found, mut problems): (Vec<ContextFile>, Vec<ResourceProblem>) = (Vec::new(), Vec::new());
    let home = places.protected.as_ref().map(|places| places.home.as_path());
    for (folder, is_foreign) in users.into_iter().chain(folders) {
        let Some(path) = CONTEXT_FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
            continue;
        };
        match read((places.protected.as_ref(), Naming::User), &path, longest_context()) {
            Ok(_) if is_foreign && leads_out(folder, &path, home) && guard!(ResourcesContextLinks) => {
                let message = "it links to a file outside the project; to read it, run: pi trust".to_owned();
                problems.push(ResourceProblem { path, message });
            }
            Ok(content) => {
                let path = path.display().to_string();
                if !found.iter().any(|known| known.path == path) {
                    let content = content.strip_prefix('\u{feff}').unwrap_or(&content).to_owned();
                    found.push(ContextFile { path, content });
                }
            }
            Err(ResourceReadError::Withheld(problem)) => problems.push(problem),
            Err(ResourceReadError::Refused(_)) => unreachable!("the user names context files"),
            Err(ResourceReadError::Failed(message)) => problems.push(ResourceProblem { path, message }),
        }
    }
    (found, problems)
}

/// Returns whether a file is a link that leads out of the repository of its folder, or out of the folder if it is in no
/// repository: a cloned project must not include other files of the user in the prompt. A repository that contains the user's
/// home is ignored.
fn leads_out(folder: &Path, path: &Path, home: Option<&Path>) -> bool {
    let is_home = |above: &Path| home.is_some_and(|home| home.starts_with(above));
    let mut own = folder.ancestors().take_while(|above| !is_home(above) || !guard!(PackagesEnclosingHome));
    let top = own.find(|above| above.join(".git").exists()).unwrap_or(folder);
    match (fs::canonicalize(top), fs::canonicalize(path)) {
        (Ok(top), Ok(real)) => !real.starts_with(top),
        _ => true,
    }
}

/// Returns the maximum size of a context file in bytes.
fn longest_context() -> u64 {
    if guard!(ResourcesContextSize) { MAX_CONTEXT_BYTES } else { u64::MAX }
}

#[cfg(test)]
mod tests;
