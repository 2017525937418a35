//! Loading everything again: `/reload`, and every change of session.
//!
//! Packages are loaded in load order and at the same time, as at a start ([`load_order`](crate::load_order)).
//!
//! On `/reload` the old extensions *retire*: they hear no event, own no tool and no command, and `pi` and
//! contexts throw in their realms; what is under way there, the command that asked for the reload first of
//! all, goes on. A realm is let go once nothing is under way in it: nobody waits for an answer of it and no
//! hostcall of its own is open.
//!
//! On a change of session realms stay, as pi keeps the modules that it has read: their factories run once
//! more, in the modules that are there, and what earlier runs of them registered and hold is void. Timers and
//! what else is under way go on.

use crate::extension::{Slot, Status};
use crate::host::Host;
use crate::load::FirstLoad;
use crate::load_order::{Candidate, TakeBack};
use crate::package::{LoadAgain, LoadError, LoadReport, Package};
use crate::registry::Registry;
use pijs_protocol::message::Message;
use pijs_protocol::{CallId, ExtensionId, Termination};
use std::ops::ControlFlow;
use std::rc::Rc;

impl Host {
    /// Retires all extensions and loads these packages; without any, the same ones again. Flags keep
    /// their values. Loading goes on past a package that does not run.
    pub async fn reload(&self, packages: Option<Vec<Package>>) -> Vec<Result<LoadReport, LoadError>> {
        self.load_again(packages, false).await
    }

    /// For another session: realms stay where the same packages are to run and all of them live, and their factories
    /// run again. Everything else is loaded as by [`Host::reload`].
    pub async fn change_session(&self, packages: Option<Vec<Package>>) -> Vec<Result<LoadReport, LoadError>> {
        let slots = self.unretired();
        let stay = self.profile().keeps_modules()
            && slots.iter().all(|slot| slot.cell.borrow().status == Status::Live)
            && packages.as_ref().is_none_or(|packages| {
                packages.len() == slots.len()
                    && packages.iter().zip(&slots).all(|(package, slot)| slot.cell.borrow().package.is(package))
            });
        if !stay {
            return self.load_again(packages, false).await;
        }
        for slot in &slots {
            self.void(slot, Status::Loading);
            self.post(slot, Message::Retired {});
        }
        self.0.session.started.set(false);
        let mut reports = Vec::new();
        for slot in slots {
            reports.push(self.load_into(&slot, FirstLoad::Stays).await);
        }
        reports
    }

    /// Reloads while the session stays: references of old extensions to `pi`, to contexts and to the bus still work, where the
    /// profile says so, until the next reload and no longer than the session.
    pub async fn reload_in_session(&self, packages: Option<Vec<Package>>) -> Vec<Result<LoadReport, LoadError>> {
        self.load_again(packages, self.profile().survives_reload()).await
    }

    /// Reloads as [`Host::reload_in_session`] does. Where a package does not load, or an entry of it does not, the version that
    /// ran before is loaded in its place; `takes_back` is told before it is, to give it what it held.
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
        // Realms cost what processes cost: those of one reload linger, not of all.
        self.end_lingering();
        let old = self.unretired();
        let again = old.iter().map(|slot| Rc::clone(&slot.cell.borrow().package)).collect();
        let packages = packages.map_or(again, |packages| packages.into_iter().map(Rc::new).collect::<Vec<_>>());
        let lived: Vec<Rc<Package>> = old
            .iter()
            .filter(|slot| slot.cell.borrow().status == Status::Live)
            .map(|slot| Rc::clone(&slot.cell.borrow().package))
            .collect();
        for slot in &old {
            // One that was taken away is gone.
            let comes_back = packages.iter().any(|package| package.id() == slot.cell.borrow().package.id());
            self.retire(slot, lingers && comes_back);
        }
        self.0.session.epoch.set(self.0.session.epoch.get() + 1);
        self.0.session.started.set(false);
        let candidate = |package: Rc<Package>| {
            let earlier = |old: &&Rc<Package>| takes_back.is_some() && old.id() == package.id() && !old.is(&package);
            let before = lived.iter().find(earlier).cloned();
            Candidate { package, before }
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

    /// Loads the version of a package that ran before in place of the one that failed. Answers whether it runs.
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

    /// Makes stale what worked on.
    fn end_lingering(&self) {
        for slot in self.slots() {
            if std::mem::take(&mut slot.cell.borrow_mut().restart.lingers) {
                self.post(&slot, Message::Retired {});
            }
        }
    }

    /// The packages that are loaded, in load order, also those that failed.
    pub fn packages(&self) -> Vec<Package> {
        self.unretired().iter().map(|slot| Package::clone(&slot.cell.borrow().package)).collect()
    }

    fn unretired(&self) -> Vec<Rc<Slot>> {
        self.slots().into_iter().filter(|slot| slot.cell.borrow().status != Status::Retired).collect()
    }

    fn retire(&self, slot: &Rc<Slot>, lingers: bool) {
        slot.cell.borrow_mut().restart.lingers = lingers;
        self.void(slot, Status::Retired);
        if !lingers {
            self.post(slot, Message::Retired {});
        }
    }

    /// Forgets what an extension has registered.
    fn void(&self, slot: &Rc<Slot>, status: Status) {
        let had_servers = {
            let mut extension = slot.cell.borrow_mut();
            extension.status = status;
            let had_servers = extension.registry.has_mcp_servers();
            extension.registry = Registry::with_entries(extension.package.entries.len());
            extension.ears.deafen();
            had_servers
        };
        if had_servers {
            self.publish_mcp_servers();
        }
        self.refresh_heard();
        slot.changed.notify_waiters();
    }

    /// Lets go of retired realms in which nothing is under way.
    pub(crate) fn let_go(&self) {
        if self.0.session.epoch.get() == 0 {
            return;
        }
        for slot in self.slots() {
            let mut extension = slot.cell.borrow_mut();
            let is_over = extension.status == Status::Retired
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

impl Slot {
    /// A call's name in the dispatcher.
    pub(crate) fn call_id(&self, asked: CallId) -> CallId {
        call_id(self.epoch, asked)
    }
}

/// A call's name in the dispatcher: realms of one extension that live side by side count alike.
pub(crate) fn call_id(epoch: u32, asked: CallId) -> CallId {
    match epoch {
        0 => asked,
        epoch => CallId::new(format!("{}@{epoch}", asked.as_str())),
    }
}
