use super::*;
use pijs_hostcall::places::Protection;
use pijs_packages::Dirs;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: does {name}\n---\nDo {name}.\n")
}

/// Locations of the user and, if it is trusted, of the project.
fn places(root: &Path, agent_dir: &str, project: &str, trusted: bool) -> ResourcePlaces {
    let dirs = Dirs { agent_dir: root.join(agent_dir), cwd: root.join(project), home: root.join("home") };
    ResourcePlaces {
        agent_dir: Some(dirs.agent_dir.clone()),
        project: Some(dirs.cwd.clone()),
        context_files: true,
        trusted,
        told_trusted: trusted,
        protected: Some(Places::new(root.join(project), root.join("home"), root.join(agent_dir), root.join("tmp"))),
        found_by: Some((
            DiscoverOptions { dirs, named: Vec::new(), only_named: false, trusted },
            ResourceOptions::default(),
        )),
        checked: None,
        read: None,
    }
}

#[test]
fn skills_are_read_by_pis_rules() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "skills/a/SKILL.md", &skill("a"));
    write(root, "skills/c.md", &skill("c"));
    write(root, "skills/nameless/SKILL.md", "---\ndescription: d\ndisable-model-invocation: true\n---\n");
    write(root, "skills/wordless/SKILL.md", "---\nname: w\n---\n");
    write(root, "skills/z/SKILL.md", &skill("a"));
    let found = Resources::load(&places(root, "", "project", false));
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "nameless"]);
    assert!(found.skills[2].disable_model_invocation);
    let wrong: Vec<&str> = found.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    let expanded = found.expand("/skill:a  with care ").unwrap();
    assert!(expanded.starts_with("<skill name=\"a\" location=\""), "{expanded}");
    assert!(expanded.ends_with("Do a.\n</skill>\n\nwith care"), "{expanded}");
    assert_eq!(found.expand("/skill:nope x").unwrap(), "/skill:nope x");
}

#[test]
fn context_files_do_not_need_trust_and_prompts_do() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "agent/AGENTS.md", "user");
    write(root, "work/AGENTS.md", "outer");
    write(root, "work/project/CLAUDE.md", "\u{feff}inner");
    write(root, "work/project/.pi/prompts/fix.md", "---\ndescription: Fixes\n---\nFix $1 now");
    let texts = |found: &Resources| found.context_files.iter().map(|file| file.content.clone()).collect::<Vec<_>>();
    let found = Resources::load(&places(root, "agent", "work/project", false));
    assert_eq!(texts(&found), ["user", "outer", "inner"]);
    assert_eq!(found.expand("/fix it").unwrap(), "/fix it");
    let found = Resources::load(&places(root, "agent", "work/project", true));
    assert_eq!(found.expand("/fix it").unwrap(), "Fix it now");
    assert_eq!(found.commands()[0]["name"], "fix");
}

#[cfg(unix)]
#[test]
fn context_files_of_an_untrusted_project_do_not_link_elsewhere() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "private/notes.md", "private");
    write(root, "clone/.git/HEAD", "ref: refs/heads/main");
    write(root, "clone/docs/rules.md", "shared");
    write(root, "clone/sub/src/main.rs", "");
    symlink("../private/notes.md", root.join("clone/AGENTS.md")).unwrap();
    // Links within one repository are followed.
    symlink("../docs/rules.md", root.join("clone/sub/CLAUDE.md")).unwrap();
    write(root, "clone/sub/src/AGENTS.md", &"y".repeat((1 << 20) + 1));
    let texts = |found: &Resources| found.context_files.iter().map(|file| file.content.clone()).collect::<Vec<_>>();
    let found = Resources::load(&places(root, "agent", "clone/sub/src", false));
    assert_eq!(texts(&found), ["shared"]);
    let wrong: Vec<&str> = found.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert!(wrong[0].contains("pi trust") && wrong[1].contains("larger than"), "{wrong:?}");
    let found = Resources::load(&places(root, "agent", "clone/sub/src", true));
    assert_eq!(texts(&found), ["private", "shared"], "its user has said so");
}

#[test]
fn paths_of_an_extension_are_relative_to_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "ext/SKILL.md", &skill("own"));
    write(root, "ext/prompts/p.md", "text");
    write(root, "ext/dark.json", "{}");
    let mut found = Resources::default();
    let path = root.join("ext/index.ts").display().to_string();
    found.extend(&path, [&["SKILL.md".into()], &["prompts".into()], &["dark.json".into()]], &|_| true);
    assert_eq!(found.skills[0].source_info["source"], "extension:index");
    assert_eq!(found.prompts[0].name, "p");
    assert_eq!(found.themes, [root.join("ext/dark.json")]);
}

/// A resource outside of the extension's folder, or a link out of it, is skipped; `kept` is inside.
#[cfg(unix)]
#[test]
fn a_text_that_an_extension_may_not_name_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = &dir.path().canonicalize().unwrap();
    write(root, "notes/SKILL.md", &skill("notes"));
    write(root, "notes/p.md", "private");
    write(root, "notes/t.json", "{}");
    write(root, "ext/kept/SKILL.md", &skill("kept"));
    let link = |at: &str, to: &str| std::os::unix::fs::symlink(root.join(to), root.join(at)).unwrap();
    link("ext/p.md", "notes/p.md");
    let own = root.join("ext");
    let admits = |real: &Path| real.starts_with(&own);
    let mut found = Resources::default();
    let path = root.join("ext/index.ts").display().to_string();
    let skills = ["kept".into(), "../notes".into()];
    let refused = found.extend(&path, [&skills, &["p.md".into()], &["../notes/t.json".into()]], &admits);
    assert_eq!((found.skills.len(), found.prompts.len(), found.themes.len()), (1, 0, 0));
    assert_eq!(refused, ["SKILL.md", "p.md", "t.json"].map(|name| root.join("notes").join(name)));
    // The extension later replaces its text by a link.
    fs::remove_file(root.join("ext/kept/SKILL.md")).unwrap();
    link("ext/kept/SKILL.md", "notes/SKILL.md");
    let problem = found.expand("/skill:kept").unwrap_err();
    assert!(
        problem.message.contains("it now links to") && problem.message.contains("notes/SKILL.md;"),
        "{}",
        problem.message
    );
}

#[test]
fn named_locations_are_searched_once_and_templates_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for number in 0..5_000 {
        write(root, &format!("prompts/p{number:04}.md"), "Do it");
    }
    let mut found = Resources::default();
    let extension = root.join("main.ts").display().to_string();
    let names: Vec<PathBuf> =
        (0..2_000).map(|number| PathBuf::from(format!("{}prompts", "./".repeat(number)))).collect();
    found.extend(&extension, [&[], &names, &[]], &|_| true);
    // Each template past the limit is reported once, so the folder was read only once although it is named repeatedly.
    assert_eq!((found.prompts.len(), found.problems.len()), (MAX_PROMPTS, 5_000 - MAX_PROMPTS));
    let many: Vec<PathBuf> = (0..100_000).map(|number| PathBuf::from(format!("none{number}"))).collect();
    found.extend(&extension, [&[], &many, &[]], &|_| true);
    assert_eq!(found.named.0.len(), MAX_NAMED);
    let large = PromptTemplate { content: "x".repeat(MAX_PROMPT_BYTES), ..found.prompts[0].clone() };
    let mut found = Resources { prompts: vec![large], ..Resources::default() };
    found.extend(&extension, [&[], &[PathBuf::from("prompts/p0001.md")], &[]], &|_| true);
    assert_eq!((found.prompts.len(), found.problems.len()), (1, 1));
}

/// A project's links to protected files are not read even if the project is trusted.
#[cfg(unix)]
#[test]
fn links_of_a_trusted_project_do_not_reach_protected_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = &dir.path().canonicalize().unwrap();
    write(root, "home/.ssh/key.md", &skill("key"));
    write(root, "home/shared/kept.md", &skill("kept"));
    write(root, "agent/prompts/own.md", "mine");
    let link = |at: &str, to: &str| {
        let path = root.join("home/project").join(at);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(root.join("home").join(to), path).unwrap();
    };
    link("AGENTS.md", ".ssh/key.md");
    link(".pi/SYSTEM.md", ".ssh/key.md");
    link(".pi/prompts/key.md", ".ssh/key.md");
    link(".pi/prompts/kept.md", "shared/kept.md");
    link(".pi/skills/key/SKILL.md", ".ssh/key.md");
    link(".pi/skills/folder", ".ssh");
    link(".pi/skills/kept/SKILL.md", "shared/kept.md");
    let found = Resources::load(&places(root, "agent", "home/project", true));
    let names: Vec<&str> = found.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!(names, ["kept", "own"]);
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["kept"]);
    assert_eq!((found.context_files.len(), found.system_prompt.as_deref()), (0, None));
    let target = root.join("home/.ssh/key.md").display().to_string();
    let skipped_context: Vec<&ResourceProblem> = found.skipped_context().collect();
    assert!(skipped_context.iter().all(|problem| problem.message.contains(&target)), "{skipped_context:?}");
    for name in ["AGENTS.md", ".pi/SYSTEM.md", ".pi/prompts/key.md", ".pi/skills/key/SKILL.md"] {
        assert!(skipped_context.iter().any(|problem| problem.path.ends_with(name)), "{name}: {skipped_context:?}");
    }
}

/// A link through `/proc` is judged by its final target.
#[cfg(target_os = "linux")]
#[test]
fn a_link_is_judged_by_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let root = &dir.path().canonicalize().unwrap();
    write(root, "home/.ssh/key.md", &skill("key"));
    write(root, "home/project/x", "");
    write(root, "agent/prompts/own.md", "mine");
    std::os::unix::fs::symlink("../.ssh/key.md", root.join("home/project/leak.md")).unwrap();
    let folder = fs::File::open(root.join("home/project")).unwrap();
    let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let mut found = Resources::load(&places(root, "agent", "home/project", true));
    let named = [
        format!("{held}/leak.md"),
        // An alternative path to the root of the file system.
        format!("{}{}", Path::new("/proc/self").join("root").display(), root.join("home/.ssh/key.md").display()),
    ];
    let named = named.map(PathBuf::from);
    found.extend(&root.join("home/project/x.ts").display().to_string(), [&named, &named, &[]], &|_| true);
    let names: Vec<&str> = found.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!((names, found.skills.len()), (vec!["own"], 0));
    assert!(found.skipped_context().any(|problem| problem.path.ends_with("leak.md")));
}

/// A home inside a repository is not a part of that repository.
#[cfg(unix)]
#[test]
fn a_repository_around_the_home_does_not_permit_links() {
    let dir = tempfile::tempdir().unwrap();
    let root = &dir.path().canonicalize().unwrap();
    write(root, "home/.git/HEAD", "");
    write(root, "home/notes.md", "private");
    write(root, "home/project/x", "");
    std::os::unix::fs::symlink("../notes.md", root.join("home/project/AGENTS.md")).unwrap();
    let found = Resources::load(&places(root, "agent", "home/project", false));
    assert!(found.context_files.is_empty(), "{:?}", found.context_files);
    let found = Resources::load(&places(root, "agent", "home/project", true));
    assert_eq!(found.context_files.len(), 1);
}

/// Files that later become part of a prompt are protected from writes, even in folders that an extension may write to.
#[test]
fn resources_are_protected_from_writes() {
    let root = Path::new("/w");
    let places = places(root, "agent", "project", true).protected.unwrap();
    let texts = ["SYSTEM.md", "APPEND_SYSTEM.md", "skills/a/SKILL.md", "prompts/a.md"];
    let own = texts.iter().flat_map(|name| [format!("agent/{name}"), format!("project/.pi/{name}")]);
    let context =
        CONTEXT_FILES.iter().flat_map(|name| ["agent", "project", "project/sub"].map(|at| format!("{at}/{name}")));
    let skills = ["home", "project"].map(|at| format!("{at}/.agents/skills/a/SKILL.md"));
    for file in own.chain(context).chain(skills) {
        assert_eq!(places.protection(&root.join(&file), None), Protection::RunsLater, "{file}");
    }
    for file in ["agent/notes.md", "project/.pi/notes/SYSTEM.md", "project/SYSTEM.md", "project/skills/a/SKILL.md"] {
        assert_eq!(places.protection(&root.join(file), None), Protection::None, "{file}");
    }
}

/// A link out of a package is not read: consent to a package covers only its folder.
#[cfg(unix)]
#[test]
fn links_of_a_package_do_not_leave_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = &dir.path().canonicalize().unwrap();
    write(root, "home/other/.env", "KEY=1");
    write(root, "home/other/s/SKILL.md", &skill("s"));
    write(root, "home/other/theme.json", "{}");
    write(root, "pack/own/p.md", "mine");
    write(root, "project/x", "");
    let link = |at: &str, to: &str| {
        let path = root.join("pack").join(at);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    };
    link("prompts/env.md", "../../home/other/.env");
    link("prompts/own.md", "../own/p.md");
    link("skills/s", "../../home/other/s");
    link("themes/t.json", "../../home/other/theme.json");
    let mut places = places(root, "agent", "project", false);
    let (options, _) = places.found_by.as_mut().unwrap();
    options.named = vec![root.join("pack").display().to_string()];
    assert!(places.themes().is_empty());
    let found = Resources::load(&places);
    let names: Vec<&str> = found.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!((names, found.skills.len(), found.themes.len()), (vec!["own"], 0, 0));
    let skipped_context: Vec<&ResourceProblem> = found.skipped_context().collect();
    for name in ["prompts/env.md", "skills/s/SKILL.md", "themes/t.json"] {
        let told = skipped_context.iter().find(|problem| problem.path.ends_with(name)).expect("named");
        assert!(told.message.contains(", outside the package "), "{told:?}");
    }
}
