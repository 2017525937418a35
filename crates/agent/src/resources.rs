//! Skills, prompt templates and context files: what is read from Markdown beside extensions.
//!
//! [`Resources`] is loaded once for a session ([`Resources::load`]) and grows by what extensions name
//! in `resources_discover` ([`Resources::extend`]). The rules of names and folders are pi's: a folder
//! with a `SKILL.md` is one skill, other folders are searched; of two things with one name the first
//! counts. A file that cannot be read or understood is left out and becomes a [`Problem`].

mod markdown;
mod template;

pub use template::PromptTemplate;

use markdown::Document;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Names of context files in one folder; the first that is there counts.
const CONTEXT_FILES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];
/// Folders below a folder of skills that are searched; more is a link that leads in a circle.
const MAX_DEPTH: usize = 12;

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
    /// The user's pi folder; `None`: nothing of the user's is read.
    pub agent_dir: Option<PathBuf>,
    /// The project; `None`: nothing of the project's is read.
    pub project: Option<PathBuf>,
    /// Whether the project's own `.pi` counts: the folder is trusted.
    pub trusted: bool,
    /// Package folders that extensions were loaded from.
    pub packages: Vec<PathBuf>,
}

/// What a session has.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// In the order they were found.
    pub skills: Vec<Skill>,
    /// In the order they were found.
    pub prompts: Vec<PromptTemplate>,
    /// From the user's to the nearest.
    pub context_files: Vec<ContextFile>,
    /// Text of `APPEND_SYSTEM.md`.
    pub appended_prompt: String,
    /// Theme files that extensions named.
    pub themes: Vec<PathBuf>,
    /// What was left out.
    pub problems: Vec<Problem>,
}

/// Where something comes from, as `sourceInfo` says it.
#[derive(Debug, Clone)]
struct Source {
    source: String,
    scope: &'static str,
    base_dir: PathBuf,
}

impl Source {
    fn info(&self, path: &Path) -> Value {
        json!({"path": path, "source": self.source, "scope": self.scope, "origin": "top-level", "baseDir": self.base_dir})
    }
}

impl Resources {
    /// Reads everything. Nothing here fails: what cannot be read is a problem.
    pub fn load(places: &ResourcePlaces) -> Self {
        let mut found = Self::default();
        for package in &places.packages {
            found.add_package(package);
        }
        let local =
            |scope, base_dir: &Path| Source { source: "local".to_owned(), scope, base_dir: base_dir.to_owned() };
        if let Some(project) = places.project.as_ref().filter(|_| places.trusted) {
            let folder = project.join(".pi");
            found.add_skills(&folder.join("skills"), &local("project", &folder));
            found.add_prompts(&folder.join("prompts"), &local("project", &folder));
        }
        if let Some(agent_dir) = &places.agent_dir {
            found.add_skills(&agent_dir.join("skills"), &local("user", agent_dir));
            found.add_prompts(&agent_dir.join("prompts"), &local("user", agent_dir));
            found.appended_prompt = fs::read_to_string(agent_dir.join("APPEND_SYSTEM.md")).unwrap_or_default();
        }
        found.context_files = context_files(places);
        found
    }

    /// Adds what an extension named. `path` is the extension's file.
    pub fn extend(&mut self, path: &str, skills: &[PathBuf], prompts: &[PathBuf], themes: &[PathBuf]) {
        let file = Path::new(path);
        let name = file.file_stem().map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let base_dir = file.parent().unwrap_or(Path::new("")).to_owned();
        let source = Source { source: format!("extension:{name}"), scope: "temporary", base_dir };
        let absolute = |given: &PathBuf| without_dots(&source.base_dir.join(given));
        for given in skills {
            self.add_skills(&absolute(given), &source);
        }
        for given in prompts {
            self.add_prompts(&absolute(given), &source);
        }
        self.themes.extend(themes.iter().map(absolute));
    }

    /// What `pi.skills` and `pi.prompts` of a package's manifest name, or its `skills` and `prompts` folders.
    fn add_package(&mut self, root: &Path) {
        let source = Source { source: "cli".to_owned(), scope: "temporary", base_dir: root.to_owned() };
        let manifest = fs::read(root.join("package.json")).ok();
        let manifest = manifest.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()).unwrap_or_default();
        let declared = manifest.get("pi").filter(|pi| pi.is_object());
        let listed = |kind: &str| -> Vec<PathBuf> {
            match declared {
                Some(pi) => {
                    let names = pi.get(kind).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
                    // A package brings its own files only.
                    let inside = |name: &&str| {
                        !Path::new(name)
                            .components()
                            .any(|part| matches!(part, Component::ParentDir | Component::RootDir))
                    };
                    names.filter(inside).map(|name| without_dots(&root.join(name))).collect()
                }
                None => vec![root.join(kind)],
            }
        };
        for path in listed("skills") {
            self.add_skills(&path, &source);
        }
        for path in listed("prompts") {
            self.add_prompts(&path, &source);
        }
    }

    fn add_skills(&mut self, path: &Path, source: &Source) {
        if path.is_dir() {
            self.search_skills(path, source, 0);
        } else if path.is_file() {
            self.add_skill(path, source);
        }
    }

    fn search_skills(&mut self, folder: &Path, source: &Source, depth: usize) {
        let declared = folder.join("SKILL.md");
        if declared.is_file() {
            self.add_skill(&declared, source);
            return;
        }
        for path in children(folder) {
            if path.is_dir() {
                if depth < MAX_DEPTH {
                    self.search_skills(&path, source, depth + 1);
                }
            } else if depth == 0 && path.extension().is_some_and(|extension| extension == "md") {
                self.add_skill(&path, source);
            }
        }
    }

    fn add_skill(&mut self, path: &Path, source: &Source) {
        let is_declared = path.file_name().is_some_and(|name| name == "SKILL.md");
        let document = match Document::read(path) {
            Ok(document) => document,
            Err(message) => {
                if is_declared {
                    self.problems.push(Problem { path: path.to_owned(), message });
                }
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
        let same_file = |skill: &Skill| same_place(Path::new(&skill.file_path), path);
        if self.skills.iter().any(same_file) {
            return;
        }
        if let Some(known) = self.skills.iter().find(|skill| skill.name == name) {
            let message = format!("the skill {name:?} is already taken from {}", known.file_path);
            self.problems.push(Problem { path: path.to_owned(), message });
            return;
        }
        self.skills.push(Skill {
            name,
            description,
            file_path: path.display().to_string(),
            base_dir: base_dir.display().to_string(),
            source_info: source.info(path),
            disable_model_invocation: document.flag("disable-model-invocation"),
        });
    }

    fn add_prompts(&mut self, path: &Path, source: &Source) {
        let files = if path.is_dir() { children(path) } else { vec![path.to_owned()] };
        let markdown = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|extension| extension == "md");
        for file in files.into_iter().filter(markdown) {
            match Document::read(&file) {
                Ok(document) => {
                    let template = PromptTemplate::new(&file, document, source.info(&file));
                    if !self.prompts.iter().any(|known| known.name == template.name) {
                        self.prompts.push(template);
                    }
                }
                Err(message) => self.problems.push(Problem { path: file, message }),
            }
        }
    }

    /// What a text that a person typed stands for: `/skill:NAME ARGS` and `/TEMPLATE ARGS` are replaced.
    ///
    /// # Errors
    ///
    /// The skill's file and what is wrong with it, when it cannot be read; the text then stays as it is.
    pub fn expand(&self, text: &str) -> Result<String, Problem> {
        if let Some(rest) = text.strip_prefix("/skill:") {
            let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(skill) = self.skills.iter().find(|skill| skill.name == name) {
                let path = PathBuf::from(&skill.file_path);
                let document = Document::read(&path).map_err(|message| Problem { path, message })?;
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
        Ok(template::expand(text, &self.prompts).unwrap_or_else(|| text.to_owned()))
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

/// Files and folders in a folder, by name; hidden ones and `node_modules` are left out.
fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(folder) else { return Vec::new() };
    let shown = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| !name.starts_with('.') && name != "node_modules")
    };
    let mut found: Vec<PathBuf> = listing.filter_map(|item| Some(item.ok()?.path())).filter(shown).collect();
    found.sort();
    found
}

fn same_place(a: &Path, b: &Path) -> bool {
    a == b || matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// The user's, then those of the folders above the project, the outermost first.
fn context_files(places: &ResourcePlaces) -> Vec<ContextFile> {
    let above = places.project.iter().flat_map(|project| project.ancestors());
    let mut folders: Vec<&Path> = above.collect();
    folders.reverse();
    let mut found: Vec<ContextFile> = Vec::new();
    for folder in places.agent_dir.as_deref().into_iter().chain(folders) {
        let file = CONTEXT_FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        let Some((path, content)) = file.and_then(|path| fs::read_to_string(&path).ok().map(|text| (path, text)))
        else {
            continue;
        };
        let path = path.display().to_string();
        if !found.iter().any(|known| known.path == path) {
            let content = content.strip_prefix('\u{feff}').unwrap_or(&content).to_owned();
            found.push(ContextFile { path, content });
        }
    }
    found
}

#[cfg(test)]
mod tests;
