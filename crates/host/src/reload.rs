//! Reloads all extensions, on `/reload` and on every change of session.
//!
//! Packages are loaded in load order and concurrently, as at startup ([`load_order`](crate::load_order)).
//!
//! On `/reload` the old extensions *retire*: they receive no events, their tools and commands are gone, and `pi` and contexts
//! throw in their realms. Work in flight, such as the command that requested the reload, continues. A realm is discarded once it
//! is idle: it has no callers and no open hostcall of its own.
//!
//! On a change of session realms stay, as pi keeps its modules: their factories run again in the same modules, and earlier
//! registrations and references are void. Timers and other work in flight continue.

use crate::extension::{ExtensionStatus, Slot};
use crate::host::Host;
use crate::load::FirstLoad;
use crate::load_order::{LoadCandidate, TakeBack};
use crate::package::{LoadAgain, LoadError, LoadReport, Package};
use crate::registry::Registrations;
use pijs_protocol::message::Message;
use pijs_protocol::{ExtensionId, Termination};
use std::ops::ControlFlow;
use std::rc::Rc;

impl Host {
    /// Retires all extensions and loads `packages`, or the same packages again for `None`. Flags keep their values. A package
    /// that does not run does not stop the others.
    pub async fn reload(&self, packages: Option<Vec<Package>>) -> Vec<Result<LoadReport, LoadError>> {
        self.load_again(packages, false).await
    }

    /// Changes the session. If the same packages run and all of them are live, their realms stay and their factories run again.
    /// Otherwise all packages are loaded as by [`Host::reload`].
    pub async fn change_session(&self, packages: Option<Vec<Package>>) -> Vec<Result<LoadReport, LoadError>> {
        let slots = self.unretired();
        let stay = self.profile().keeps_modules()
            && slots.iter().all(|slot| slot.cell.borrow().status == ExtensionStatus::Live)
            && packages.as_ref().is_none_or(|packages| {
                packages.len() == slots.len()
                    && packages.iter().zip(&slots).all(|(package, slot)| slot.cell.borrow().package.is(package))
            });
        if !stay {
            return self.load_again(packages, false).await;
        }
        for slot in &slots {
            self.void(slot, ExtensionStatus::Loading);
            self.post(slot, Message::Retired {});
        }
        self.0.session.started.set(false);
        let mut reports = Vec::new();
        for slot in slots {
            reports.push(self.load_into(&slot, FirstLoad::Stays).await);
        }
        self.end_loads_without_handlers();
        reports
    }

    /// Reloads within a session. Where the profile allows it, references of old extensions to `pi`, to contexts and to the bus
    /// still work until the next reload or the end of the session.
    pub async fn reload_in_session(&self, packages: Option<Vec<Package>>) -> Vec<Result<LoadReport, LoadError>> {
        self.load_again(packages, self.profile().survives_reload()).await
    }

    /// Reloads like [`Host::reload_in_session`]. If a package or one of its entries does not load, `takes_back` restores the
    /// package's grants and the previous version is loaded.
    pub async fn reload_or_keep(&self, packages: Vec<Package>, takes_back: &dyn Fn(&ExtensionId)) -> Vec<LoadAgain> {
        self.load_or_keep(Some(packages), self.profile().survives_reload(), Some(takes_back)).await
    }

    async fn load_again(&self, packages: Option<Vec<Package>>, lingers: bool) -> Vec<Result<LoadReport, LoadError>> {
        let all = self.load_or_keep(packages, lingers, None).await;
        all.into_iter().map(|again| again.loaded).collect()
    }

    async fn load_or_keep(
        &self,
        packages: Option<Vec<Package>>,
        lingers: bool,
        takes_back: Option<TakeBack<'_>>,
    ) -> Vec<LoadAgain> {
        // Each realm is a process, so only the realms of the latest reload linger.
        self.end_lingering();
        let old = self.unretired();
        let again = old.iter().map(|slot| Rc::clone(&slot.cell.borrow().package)).collect();
        let packages = packages.map_or(again, |packages| packages.into_iter().map(Rc::new).collect::<Vec<_>>());
        let lived: Vec<Rc<Package>> = old
            .iter()
            .filter(|slot| slot.cell.borrow().status == ExtensionStatus::Live)
            .map(|slot| Rc::clone(&slot.cell.borrow().package))
            .collect();
        for slot in &old {
            // A removed package does not come back.
            let comes_back = packages.iter().any(|package| package.id() == slot.cell.borrow().package.id());
            self.retire(slot, lingers && comes_back);
        }
        self.0.session.epoch.set(self.0.session.epoch.get() + 1);
        self.0.session.started.set(false);
        let candidate = |package: Rc<Package>| {
            let earlier = |old: &&Rc<Package>| takes_back.is_some() && old.id() == package.id() && !old.is(&package);
            let before = lived.iter().find(earlier).cloned();
            LoadCandidate { package, before }
        };
        let candidates = packages.into_iter().map(candidate).collect();
        let mut reports = Vec::new();
        let take = |again| {
            reports.push(again);
            ControlFlow::Continue(())
        };
        self.load_candidates(candidates, takes_back.unwrap_or(&|_| ()), take).await;
        reports
    }

    /// Loads the previous version of a package in place of the failed one. Returns whether the previous version runs.
    pub(crate) async fn load_before(&self, before: &Rc<Slot>, take_back: TakeBack<'_>) -> bool {
        let id = before.cell.borrow().package.id().clone();
        for slot in self.unretired() {
            if *slot.cell.borrow().package.id() == id {
                self.retire(&slot, false);
            }
        }
        take_back(&id);
        self.take_reserved(before);
        self.load_into(before, FirstLoad::Opens).await.is_ok_and(|report| report.failures().next().is_none())
    }

    /// Invalidates references of retired extensions that still worked.
    fn end_lingering(&self) {
        for slot in self.slots() {
            if std::mem::take(&mut slot.cell.borrow_mut().restart.lingers) {
                self.post(&slot, Message::Retired {});
            }
        }
    }

    /// Returns the loaded packages in load order, including failed ones.
    pub fn packages(&self) -> Vec<Package> {
        self.unretired().iter().map(|slot| Package::clone(&slot.cell.borrow().package)).collect()
    }

    fn unretired(&self) -> Vec<Rc<Slot>> {
        self.slots().into_iter().filter(|slot| slot.cell.borrow().status != ExtensionStatus::Retired).collect()
    }

    fn retire(&self, slot: &Rc<Slot>, lingers: bool) {
        slot.cell.borrow_mut().restart.lingers = lingers;
        self.void(slot, ExtensionStatus::Retired);
        if !lingers {
            self.post(slot, Message::Retired {});
        }
    }

    /// Drops the registrations of an extension.
    fn void(&self, slot: &Rc<Slot>, status: ExtensionStatus) {
        let had_servers = {
            let mut extension = slot.cell.borrow_mut();
            extension.status = status;
            let had_servers = extension.registry.has_mcp_servers();
            extension.registry = Registrations::with_entries(extension.package.entries.len());
            extension.stream_handlers.clear();
            had_servers
        };
        if had_servers {
            self.publish_mcp_servers();
        }
        self.refresh_listened();
        slot.changed.notify_waiters();
    }

    /// Discards idle retired realms.
    pub(crate) fn let_go(&self) {
        if self.0.session.epoch.get() == 0 {
            return;
        }
        for slot in self.slots() {
            let mut extension = slot.cell.borrow_mut();
            let is_over = extension.status == ExtensionStatus::Retired
                && !extension.restart.lingers
                && extension.link.realm.is_some()
                && extension.link.running.is_none()
                && extension.progress.open_calls == 0
                && extension.ticks.is_idle()
                && extension.pending.is_empty();
            if is_over {
                extension.take_down(&Termination::Crashed { detail: "retired".to_owned() });
            }
        }
    }
}
