//! Loads a package, and loads it again after its realm was stopped.
//!
//! Entries of a package are loaded strictly one after the other, each factory awaited, as in pi; packages are loaded concurrently
//! where realms are processes ([`load_order`](crate::load_order)). The registrations of an entry that fails are dropped and the
//! other entries stay; a realm that stops during the load fails the whole package.

use crate::events::Event;
use crate::extension::{Extension, ExtensionStatus, Missing, Slot};
use crate::host::Host;
use crate::options::{OpenError, OpeningRealm};
use crate::package::{EntryReport, LoadError, LoadReport, Package};
use crate::record;
use crate::report::ReportKind;
use crate::restart::{RealmEnd, RestartPolicy, Sequel};
use crate::turn::SyncHostcalls;
use crate::waiter::{EntryLoaded, LoadWaiter};
use pijs_artifact::Verified;
use pijs_environment::Wait;
use pijs_hostcall::During;
use pijs_protocol::message::{Load, Message};
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{EntryIndex, ErrorCode, ExtensionId, HostcallError, Termination, guard};
use serde_json::json;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

impl Host {
    /// Announces the number of packages that are about to be loaded, so that realms can be prepared
    /// ([`OpenRealm::expect`](crate::OpenRealm::expect)); 0 ends the preparation.
    pub fn expect(&self, packages: usize) {
        self.0.services.opener.expect(packages);
    }

    /// Prepares for the announced packages while they are still read ([`OpenRealm::warm_up`](crate::OpenRealm::warm_up)).
    pub fn warm_up(&self) {
        let services = &self.0.services;
        services.opener.warm_up(&self.realm_options("host".into()), &services.modules, services.timer.now());
    }

    /// Loads a package: creates its realm and runs its entries' factories in order.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when the package as a whole does not run; the session continues without it. An entry whose factory throws is
    /// reported in [`LoadReport::failures`] instead.
    pub async fn load(&self, package: Package) -> Result<LoadReport, LoadError> {
        let slot = self.add_slot(Rc::new(package))?;
        self.load_into(&slot, FirstLoad::Opens).await
    }

    /// Appends a package.
    pub(crate) fn add_slot(&self, package: Rc<Package>) -> Result<Rc<Slot>, LoadError> {
        let id = package.id().clone();
        let taken = |slot: &Rc<Slot>| {
            let extension = slot.cell.borrow();
            extension.status != ExtensionStatus::Retired && *extension.package.id() == id
        };
        if self.slots().iter().any(taken) {
            return Err(LoadError::Duplicate(id));
        }
        self.0.services.source_excerpts.learn(&id, &package.artifact);
        Ok(self.push_slot(package))
    }

    /// Appends a package that stays inactive until [`Host::take_reserved`].
    pub(crate) fn reserve_slot(&self, package: Rc<Package>) -> Rc<Slot> {
        let slot = self.push_slot(package);
        slot.cell.borrow_mut().status = ExtensionStatus::Retired;
        slot
    }

    /// Activates the package of a reserved slot, and starts its load.
    pub(crate) fn take_reserved(&self, slot: &Rc<Slot>) {
        let package = Rc::clone(&slot.cell.borrow().package);
        self.0.services.source_excerpts.learn(package.id(), &package.artifact);
        self.set_status(slot, ExtensionStatus::Loading);
    }

    fn push_slot(&self, package: Rc<Package>) -> Rc<Slot> {
        let max_timers = self.0.services.options.limits.timers as usize;
        let slot = Rc::new(Slot {
            index: self.0.slots.borrow().len(),
            epoch: self.0.session.epoch.get(),
            cell: RefCell::new(Extension::new(package, max_timers, Arc::clone(&self.0.queue.wake))),
            changed: Notify::new(),
        });
        self.0.slots.borrow_mut().push(Rc::clone(&slot));
        slot
    }

    /// Loads a slot's package, starting with `first`.
    pub(crate) async fn load_into(&self, slot: &Rc<Slot>, first: FirstLoad) -> Result<LoadReport, LoadError> {
        let id = slot.cell.borrow().package.id().clone();
        let conflicts = self.reports();
        if !matches!(first, FirstLoad::IsUnderWay(_)) {
            self.0.services.dispatcher.gate().begin_load(&id);
        }
        let loaded = self.load_persistently(slot, first).await;
        let conflicts = conflicts
            .drain()
            .into_iter()
            .filter(|report| report.extension == id)
            .filter_map(|report| match report.kind {
                ReportKind::Conflict { message } => Some(message),
                _ => None,
            })
            .collect();
        match loaded {
            Ok(entries) => {
                self.set_status(slot, ExtensionStatus::Live);
                Ok(LoadReport { extension: id, entries, conflicts })
            }
            Err(error) => {
                self.0.services.dispatcher.gate().end_load(&id);
                self.set_status(slot, ExtensionStatus::Disabled);
                Err(error)
            }
        }
    }

    /// Gives a stopped extension a new realm. The entries are loaded again and get `session_start` with the reason `reload`.
    pub(crate) async fn revive(&self, slot: &Rc<Slot>) {
        let sequel = slot.cell.borrow().restart.sequel;
        if let Sequel::Restart(pause) = sequel
            && !pause.is_zero()
        {
            self.0.services.timer.sleep(Wait::Call, pause).await;
        }
        let id = slot.cell.borrow().package.id().clone();
        self.0.services.dispatcher.gate().begin_load(&id);
        self.revive_in_load(slot).await;
        if self.0.session.started.get() || !self.has_handlers("session_start") {
            self.0.services.dispatcher.gate().end_load(&id);
        }
    }

    async fn revive_in_load(&self, slot: &Rc<Slot>) {
        let loaded = self.load_realm(slot).await;
        if slot.cell.borrow().status == ExtensionStatus::Retired {
            return;
        }
        match loaded {
            Ok(entries) => {
                let is_whole = entries.iter().all(|entry| entry.error.is_none());
                for entry in entries {
                    if let Some(error) = entry.error {
                        self.report(slot, Some(entry.entry), ReportKind::Error(error));
                    }
                }
                self.set_status(slot, ExtensionStatus::Live);
                self.report(slot, None, ReportKind::Restarted);
                if self.0.session.started.get() {
                    self.emit_to(slot, &Event::new("session_start").with("reason", "reload")).await;
                }
                let mut extension = slot.cell.borrow_mut();
                if is_whole && extension.status == ExtensionStatus::Live {
                    extension.restart.missing = Missing::default();
                }
            }
            // `end` has counted and reported it.
            Err(LoadError::Ended { .. }) => {
                let sequel = slot.cell.borrow().restart.sequel;
                self.set_status(
                    slot,
                    if sequel == Sequel::Quarantine { ExtensionStatus::Disabled } else { ExtensionStatus::Stopped },
                );
            }
            Err(LoadError::Realm { error, .. }) if error.is_death() && self.count_end(slot) != Sequel::Quarantine => {
                self.set_status(slot, ExtensionStatus::Stopped);
            }
            Err(error) => {
                self.report(slot, None, ReportKind::Warning { message: error.to_string() });
                self.set_status(slot, ExtensionStatus::Disabled);
            }
        }
    }

    /// Counts the end of a realm that was not created yet, and returns the consequence.
    fn count_end(&self, slot: &Rc<Slot>) -> Sequel {
        let now_us = self.0.services.timer.now().elapsed_us;
        let mut extension = slot.cell.borrow_mut();
        let end = RealmEnd { at_us: now_us, ..RealmEnd::default() };
        extension.restart.sequel = extension.restart.ends.count(end, self.0.services.options.restarts);
        extension.restart.sequel
    }

    /// Handles the end of a realm: answers all callers and schedules a new one.
    pub(crate) fn end(&self, slot: &Rc<Slot>, reason: &Termination) {
        self.end_and(slot, reason, |extension, end, policy| extension.restart.ends.count(end, policy));
    }

    /// Ends a realm during a delta. Strikes limit how often that happens: a slow handler is muted and does not disable the whole
    /// extension.
    pub(crate) fn end_in_verdict(&self, slot: &Rc<Slot>, reason: &Termination) {
        self.end_and(slot, reason, |_, _, _| Sequel::Restart(Duration::ZERO));
    }

    fn end_and(
        &self,
        slot: &Rc<Slot>,
        reason: &Termination,
        count: impl FnOnce(&mut Extension, RealmEnd, RestartPolicy) -> Sequel,
    ) {
        let policy = self.0.services.options.restarts;
        let now_us = self.0.services.timer.now().elapsed_us;
        self.report_kept_back(slot);
        let (id, sequel, ends) = {
            let mut extension = slot.cell.borrow_mut();
            let end = extension.end_of(reason, now_us);
            let was_loading = matches!(extension.status, ExtensionStatus::Loading | ExtensionStatus::Reviving);
            extension.take_down(reason);
            let sequel = count(&mut extension, end, policy);
            extension.restart.sequel = sequel;
            match sequel {
                // The loader decides what happens next.
                _ if was_loading => extension.status = ExtensionStatus::Loading,
                Sequel::Restart(_) => {}
                Sequel::Quarantine => extension.status = ExtensionStatus::Disabled,
            }
            (extension.package.id().clone(), sequel, extension.restart.ends.recent())
        };
        if slot.cell.borrow().status == ExtensionStatus::Retired {
            // The successor has the same id, so its calls would end, too; the calls of this extension end by themselves.
            return;
        }
        self.0.services.dispatcher.end_extension(&id, &reason.error());
        self.refresh_listened();
        self.report(slot, None, ReportKind::Ended(reason.clone()));
        record::ended(&self.0.services, &slot.cell.borrow().caller, reason);
        self.flush_ledger();
        if sequel == Sequel::Quarantine {
            let within_s = policy.window_us / 1_000_000;
            self.report(slot, None, ReportKind::Disabled { ends, within_s });
        }
        slot.changed.notify_waiters();
        self.notify_driver();
    }

    /// Releases an extension from quarantine; returns `false` when there is none of this id.
    ///
    /// Its earlier ends are forgotten. It restarts like after any stop, while [`Host::drive`] runs.
    pub fn release(&self, extension: &ExtensionId) -> bool {
        let in_quarantine = |slot: &&Rc<Slot>| {
            let held = slot.cell.borrow();
            *held.package.id() == *extension
                && held.status == ExtensionStatus::Disabled
                && held.restart.sequel == Sequel::Quarantine
        };
        let Some(slot) = self.slots().iter().find(in_quarantine).cloned() else { return false };
        {
            let mut held = slot.cell.borrow_mut();
            held.restart.ends.forgive();
            held.restart.sequel = Sequel::Restart(Duration::ZERO);
        }
        self.set_status(&slot, ExtensionStatus::Stopped);
        self.notify_driver();
        true
    }

    /// Ends the calls in flight at the end of the session.
    pub fn end_calls(&self) {
        let over = HostcallError::new(ErrorCode::Timeout, "the session is over").with("reason", "cancelled");
        for slot in self.slots() {
            let id = slot.cell.borrow().package.id().clone();
            self.0.services.dispatcher.end_extension(&id, &over);
        }
    }

    fn set_status(&self, slot: &Rc<Slot>, status: ExtensionStatus) {
        slot.cell.borrow_mut().status = status;
        self.refresh_listened();
        slot.changed.notify_waiters();
    }

    /// Waits until every extension that is being restarted runs, or is disabled.
    pub async fn restarts_done(&self) {
        for slot in self.slots() {
            self.live(&slot).await;
        }
    }

    /// Waits until an extension runs. Returns `false` if it never will again.
    pub(crate) async fn live(&self, slot: &Rc<Slot>) -> bool {
        loop {
            let changed = slot.changed.notified();
            match slot.cell.borrow().status {
                ExtensionStatus::Live => return true,
                ExtensionStatus::Disabled | ExtensionStatus::Retired => return false,
                ExtensionStatus::Loading | ExtensionStatus::Stopped | ExtensionStatus::Reviving => {}
            }
            changed.await;
        }
    }

    /// Loads a package for a session, with retries: a worker may die for a reason unrelated to its extension, such as a shortage of
    /// memory.
    async fn load_persistently(&self, slot: &Rc<Slot>, first: FirstLoad) -> Result<Vec<EntryReport>, LoadError> {
        self.take_turn(slot);
        let mut first = Some(first);
        loop {
            let loaded = match first.take() {
                Some(FirstLoad::Stays) => self.load_entries(slot, None).await,
                Some(FirstLoad::IsUnderWay(Ok(answer))) => self.load_entries(slot, answer).await,
                Some(FirstLoad::IsUnderWay(Err(error))) => Err(error),
                Some(FirstLoad::Opens) | None => self.load_realm(slot).await,
            };
            let sequel = match &loaded {
                Err(LoadError::Ended { reason: Termination::Crashed { .. }, .. }) => slot.cell.borrow().restart.sequel,
                Err(LoadError::Realm { error, .. }) if error.is_death() => self.count_end(slot),
                _ => return loaded,
            };
            match sequel {
                Sequel::Quarantine => return loaded,
                Sequel::Restart(pause) => self.0.services.timer.sleep(Wait::Call, pause).await,
            }
        }
    }

    /// Opens a realm for a slot and loads all entries into it.
    async fn load_realm(&self, slot: &Rc<Slot>) -> Result<Vec<EntryReport>, LoadError> {
        self.open_realm(slot, None)?;
        self.load_entries(slot, None).await
    }

    /// Loads all entries into the realm of a slot. `first` receives the answer for the first one, if its load has started.
    async fn load_entries(&self, slot: &Rc<Slot>, first: Option<LoadAnswer>) -> Result<Vec<EntryReport>, LoadError> {
        let package = Rc::clone(&slot.cell.borrow().package);
        let extension = package.id().clone();
        let (mut first, mut reports) = (first, Vec::new());
        for (index, entry) in (0..).zip(&package.entries) {
            let index = EntryIndex(index);
            let answer = first.take().unwrap_or_else(|| self.begin_entry(slot, index));
            let ended = |reason| LoadError::Ended { extension: extension.clone(), path: entry.path.clone(), reason };
            let (error, manifest) = match answer.await {
                Ok(EntryLoaded::Ready(manifest)) => (None, manifest),
                Ok(EntryLoaded::Failed(error)) => (Some(error), None),
                Ok(EntryLoaded::Ended(reason)) => return Err(ended(reason)),
                Err(_) => unreachable!("a waiter is answered before it is dropped"),
            };
            record::loaded(&self.0.services, &slot.cell.borrow().caller, &entry.path, error.as_ref());
            self.flush_ledger();
            reports.push(EntryReport { entry: index, path: entry.path.clone(), error, manifest });
        }
        Ok(reports)
    }

    /// Starts the load of one entry in the realm of a slot.
    pub(crate) fn begin_entry(&self, slot: &Rc<Slot>, index: EntryIndex) -> LoadAnswer {
        let (done, answer) = oneshot::channel();
        let since_us = self.0.services.timer.now().elapsed_us;
        let load = {
            let mut extension = slot.cell.borrow_mut();
            extension.pending.load = Some(LoadWaiter { entry: index, done, since_us });
            let package = &extension.package;
            let own = extension.caller.profile.package_root.as_deref();
            let entry = &package.entries[index.0 as usize];
            Load {
                entry: index,
                module: entry.module.clone(),
                path: entry.path.clone(),
                extension: package.id().clone(),
                // Folder of `import.meta.url` and `__dirname` in the package's modules.
                root: package.place.as_deref().or(own).and_then(Path::to_str).map(str::to_owned),
            }
        };
        self.post(slot, Message::Load(load));
        self.ingest();
        self.run_ready(slot);
        answer
    }

    /// Starts opening a realm for a slot, where realms are opened concurrently.
    pub(crate) fn begin_realm(&self, slot: &Rc<Slot>) -> Option<Result<Box<dyn OpeningRealm>, LoadError>> {
        let (options, modules) = self.parts_of(slot);
        let begun = self.0.services.opener.begin(&options, &modules, self.0.services.timer.now())?;
        Some(begun.map_err(|error| not_opened(slot, error)))
    }

    /// Opens a realm for a slot: the one that was started, or a new one.
    pub(crate) fn open_realm(&self, slot: &Rc<Slot>, begun: Option<Box<dyn OpeningRealm>>) -> Result<(), LoadError> {
        self.try_open(slot, begun).map_err(|error| not_opened(slot, error))
    }

    /// Returns the options and modules of a slot's realm.
    fn parts_of(&self, slot: &Rc<Slot>) -> (RealmOptions, Vec<Arc<Verified>>) {
        let core = &*self.0;
        let extension = slot.cell.borrow();
        let options = self.realm_options(extension.caller.extension().clone());
        let package = &extension.package;
        // The first of two modules of one name counts, so that an extension replaces none of the host's.
        let modules = match package.artifact.artifact().component() {
            Some(_) => vec![Arc::clone(&package.artifact)],
            None => [&core.services.modules]
                .into_iter()
                .chain(&package.supplied)
                .chain([&package.artifact])
                .cloned()
                .collect(),
        };
        (options, modules)
    }

    /// Returns the options of an extension's realm: equal for all extensions except for the name, so that realms can be copies of
    /// one process.
    fn realm_options(&self, extension: ExtensionId) -> RealmOptions {
        let core = &*self.0;
        let mut facts = core.services.options.facts.clone();
        if guard!(RealmTimers) {
            // The limit makes one timer too many an error at its creation.
            facts.insert("limits".to_owned(), json!({ "timers": core.services.options.limits.timers }));
        }
        facts.insert("profile".to_owned(), core.services.options.profile.version().into());
        facts.insert("time_zone".to_owned(), core.services.options.time_zone.as_str().into());
        RealmOptions {
            extension,
            limits: core.services.options.limits.clone(),
            seed: core.services.options.seed,
            clock_step_us: core.services.options.clock_step_us,
            time_zone: core.services.options.time_zone.clone(),
            facts,
        }
    }

    fn try_open(&self, slot: &Rc<Slot>, begun: Option<Box<dyn OpeningRealm>>) -> Result<(), OpenError> {
        let core = &*self.0;
        let caller = slot.cell.borrow().caller_in(During::Turn);
        let mut seen_state = 0;
        let mut hostcalls = SyncHostcalls {
            caller: &caller,
            epoch: slot.epoch,
            dispatcher: &core.services.dispatcher,
            timer: core.services.timer.as_ref(),
            state: &core.state,
            seen_state: &mut seen_state,
            deadline: None,
            waker: None,
        };
        let mut opened = match begun {
            Some(opening) => opening.finish(&mut hostcalls)?,
            None => {
                let (options, modules) = self.parts_of(slot);
                core.services.opener.open(&options, modules, core.services.timer.now(), &mut hostcalls)?
            }
        };
        let booted = std::mem::take(&mut opened.booted);
        let watch = core.services.watchdog.as_ref().map(|watchdog| watchdog.watch(Arc::clone(&opened.stop)));
        {
            let mut extension = slot.cell.borrow_mut();
            extension.move_in(opened, watch, Arc::clone(&core.queue.wake));
            extension.link.seen_state = seen_state;
        }
        self.settle(slot, booted);
        let active = core.session.active_signal.borrow().clone();
        if let Some(signal) = active {
            self.hand_in(slot, &signal);
        }
        Ok(())
    }
}

/// Receives the answer of a realm to the load of one entry.
pub(crate) type LoadAnswer = oneshot::Receiver<EntryLoaded>;

/// The first attempt to load a package.
pub(crate) enum FirstLoad {
    /// A realm has to be opened.
    Opens,
    /// The existing realm loads it again.
    Stays,
    /// A realm was opened, and the load of its first entry is in flight; or that failed.
    IsUnderWay(Result<Option<LoadAnswer>, LoadError>),
}

fn not_opened(slot: &Rc<Slot>, error: OpenError) -> LoadError {
    LoadError::Realm { extension: slot.cell.borrow().package.id().clone(), error }
}
