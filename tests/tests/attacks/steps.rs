//! Executes the steps of a case in order.

use crate::case::{self, Forged, Publish, RegistryReply, Step};
use crate::server::Server;
use crate::world::World;
use crate::{archive, files, invariants, run};
use pijs_artifact::Module;
use pijs_extc::{BuildOptions, Input};
use pijs_testkit::registry::{self, Reply};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// Runs all steps. The error names the failed step.
pub(crate) fn all(world: &World, steps: &[Value]) -> Result<(), String> {
    list(world, steps, true)
}

fn list(world: &World, steps: &[Value], alone: bool) -> Result<(), String> {
    for (at, step) in steps.iter().enumerate() {
        let filled = world.fill_value(step);
        let kind = filled["do"].as_str().unwrap_or_default().to_owned();
        let step: Step = serde_json::from_value(filled).map_err(|error| error.to_string())?;
        one(world, step, alone).map_err(|error| format!("step {} ({kind}): {error}", at + 1))?;
    }
    Ok(())
}

fn one(world: &World, step: Step, alone: bool) -> Result<(), String> {
    match step {
        Step::Pi(pi) if alone => invariants::around(world, &pi.may_change, || run::pi(world, &pi)),
        // Other steps change the world concurrently, so the invariants are checked around all of them.
        Step::Pi(pi) => run::pi(world, &pi).map(drop),
        Step::Write(write) => files::write(world, &write),
        Step::Edit(edit) => files::edit(world, &edit),
        Step::Remove { path } => {
            let path = world.path(&path);
            let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(|error| format!("{}: {error}", path.display()))
        }
        Step::Rename { from, to } => {
            std::fs::rename(world.path(&from), world.path(&to)).map_err(|error| format!("{from} to {to}: {error}"))
        }
        Step::Publish(publish) => self::publish(world, &publish),
        Step::Registry { package, patch, path, reply } => {
            if let (Some(package), Some(patch)) = (&package, &patch) {
                world.registry.edit(package, |document| files::merge(document, patch));
            }
            if let (Some(path), Some(reply)) = (&path, reply) {
                world.registry.reply(path, answer(reply)?);
            }
            Ok(())
        }
        Step::Archive { path, archive } => {
            let path = world.path(&path);
            std::fs::write(&path, archive::build(&archive, "attacked", "1.0.0")?)
                .map_err(|error| format!("{}: {error}", path.display()))
        }
        Step::Artifact(forged) => self::artifact(world, &forged),
        Step::Serve { name, replies, folder } => {
            world.add_server(&name, Server::start(replies, folder.map(|folder| world.path(&folder))));
            Ok(())
        }
        Step::Run { program, args, cwd, env, keep } => {
            let mut command = Command::new(&program);
            command
                .args(&args)
                .current_dir(world.path(cwd.as_deref().unwrap_or("project")))
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("HOME", world.path("outside"))
                .envs(&env);
            let output = command.output().map_err(|error| format!("{program}: {error}"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(format!("{program} {args:?}: {}\n{said}", output.status));
            }
            if let Some(name) = keep {
                world.set(&name, String::from_utf8_lossy(&output.stdout).trim());
            }
            Ok(())
        }
        Step::Parallel { lists } => invariants::around(world, &[], || {
            std::thread::scope(|scope| {
                let threads: Vec<_> = lists.iter().map(|steps| scope.spawn(|| list(world, steps, false))).collect();
                let results = threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread of the suite panicked".to_owned())));
                let results: Result<Vec<()>, String> = results.collect();
                results.map(|_| run::Ran::default())
            })
        }),
        Step::Repeat { times, nightly, steps } => {
            let times = nightly.filter(|_| std::env::var_os("PIJS_NIGHTLY").is_some()).unwrap_or(times);
            (0..times).try_for_each(|round| {
                world.set("round", &round.to_string());
                list(world, &steps, alone).map_err(|error| format!("round {round}: {error}"))
            })
        }
        Step::Each { of, steps } => each(world, of, &steps, alone),
        Step::Include { name } => list(world, &case::included(&name)?, alone),
        Step::Expect(expected) => files::expect(world, &expected),
    }
}

/// Runs the steps for each set of names. For the shipped program, the first failure counts. With a guard lowered, each variant
/// has to fail.
fn each(world: &World, of: Vec<Map<String, Value>>, steps: &[Value], alone: bool) -> Result<(), String> {
    let mut failures = Vec::new();
    let variants = of.len();
    for (at, names) in of.into_iter().enumerate() {
        let shown = Value::Object(names.clone()).to_string();
        for (name, value) in names {
            world.set_value(&name, value);
        }
        world.set("variant", &at.to_string());
        match list(world, steps, alone) {
            Err(failure) if world.mode.down.is_empty() => return Err(format!("{shown}: {failure}")),
            Err(failure) => failures.push(failure),
            Ok(()) => world.note(&format!("holds: {shown}")),
        }
    }
    if failures.len() < variants || failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("\n"))
}

fn artifact(world: &World, forged: &Forged) -> Result<(), String> {
    let build = |file: &str| {
        let built = pijs_extc::build(&Input::at(world.path(file)), &BuildOptions::default());
        built.map(|built| built.artifact.artifact().clone()).map_err(|failure| failure.render(false))
    };
    let mut artifact = build(&forged.of)?;
    if let Some(other) = &forged.bytecode_of {
        artifact.modules[0].bytecode = build(other)?.modules.remove(0).bytecode;
    }
    if let Some(source) = &forged.source {
        artifact.modules[0].source = source.clone();
    }
    artifact.modules.extend(forged.modules.iter().map(|(specifier, source)| Module {
        specifier: specifier.clone(),
        source: source.clone(),
        source_map: None,
        bytecode: None,
    }));
    if let Some(patch) = &forged.metadata {
        let mut metadata = serde_json::to_value(&artifact.metadata).map_err(|error| error.to_string())?;
        files::merge(&mut metadata, patch);
        artifact.metadata = serde_json::from_value(metadata).map_err(|error| error.to_string())?;
    }
    let bytes = pijs_artifact::encode(&artifact);
    let path = world.path(&forged.path);
    let folder = path.parent().ok_or("a file is in a folder")?;
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes)).map_err(|error| error.to_string())
}

fn answer(reply: RegistryReply) -> Result<Reply, String> {
    Ok(match reply {
        RegistryReply::Redirect(to) => Reply::Redirect(to),
        RegistryReply::Status(status) => Reply::Status(status),
        RegistryReply::Silence => Reply::Silence,
        RegistryReply::Body(content) => {
            Reply::Body { content_type: "application/json", bytes: archive::content(&content)? }
        }
    })
}

fn publish(world: &World, publish: &Publish) -> Result<(), String> {
    let mut manifest = json!({ "name": publish.name, "version": publish.version });
    if !publish.manifest.contains_key("pi") {
        manifest["pi"] = json!({ "extensions": ["./index.ts"] });
    }
    for (key, value) in &publish.manifest {
        manifest[key] = value.clone();
    }
    let tarball = match &publish.archive {
        Some(archive) => archive::build(archive, &publish.name, &publish.version)?,
        None => {
            let mut all = BTreeMap::from([("index.ts".to_owned(), archive::HELLO.as_bytes().to_vec())]);
            all.insert("package.json".to_owned(), manifest.to_string().into_bytes());
            all.extend(publish.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())));
            registry::pack(&all)
        }
    };
    let digest = ssri::IntegrityOpts::new().algorithm(ssri::Algorithm::Sha1).chain(&tarball).result();
    world.set("sha1", &digest.to_string());
    world.registry.publish_tarball(&manifest, &tarball, |entry| {
        if let Some(says) = &publish.says {
            let mut value = Value::Object(std::mem::take(entry));
            files::merge(&mut value, &world.fill_value(says));
            *entry = value.as_object().cloned().unwrap_or_default();
        }
    });
    Ok(())
}
