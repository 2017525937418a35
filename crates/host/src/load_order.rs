//! Loads several packages concurrently, with the effects of one after the other.
//!
//! Realms in processes open, evaluate modules and run factories concurrently, one per core
//! ([`OpenRealm::concurrency`](crate::OpenRealm::concurrency)). A factory has few visible effects before it has ended: the
//! methods of `pi` that act on the session throw. The remaining effects are delivered in the package's turn, that is when earlier
//! packages have loaded:
//!
//! ```text
//! registrations, with the end of the load     names, conflicts and the ledger are the same as without concurrency
//! emissions on the bus                        delivered to earlier packages, not to later ones
//! log lines and errors                        reported in load order
//! ```
//!
//! [`Ahead`] holds these effects back meanwhile. Hostcalls and timers are not held back, so that a waiting package delays only
//! itself.

use crate::ahead::Ahead;
use crate::extension::{Extension, ExtensionStatus, Slot};
use crate::host::Host;
use crate::load::FirstLoad;
use crate::options::OpeningRealm;
use crate::package::{LoadAgain, LoadError, LoadReport, Package};
use crate::report::ReportKind;
use pijs_protocol::message::Message;
use pijs_protocol::{EntryIndex, ExtensionId};
use std::cmp::Reverse;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{Semaphore, oneshot};

/// Turn of a package in some order: it begins when the previous package's turn is over, and ends when this is dropped.
struct Turn {
    before: Option<oneshot::Receiver<()>>,
    over: Option<oneshot::Sender<()>>,
}

impl Turn {
    /// Returns the turn of each package. `order` lists every package number once, the first one to go first.
    fn in_order(order: &[usize]) -> Vec<Self> {
        let mut in_front = None;
        let mut turns = Vec::with_capacity(order.len());
        for number in order {
            let (over, next) = oneshot::channel();
            turns.push((*number, Self { before: in_front.replace(next), over: Some(over) }));
        }
        turns.sort_by_key(|(number, _)| *number);
        turns.into_iter().map(|(_, turn)| turn).collect()
    }

    async fn comes(&mut self) {
        if let Some(before) = self.before.take() {
            // The sender is dropped without a value.
            let _ = before.await;
        }
    }

    /// Ends the turn before this value is dropped.
    fn end(&mut self) {
        self.over.take();
    }
}

/// The two turns of one package.
struct Turns {
    /// Turn to start the realm. Larger packages come first, because a large one that starts last delays the whole load.
    start: Turn,
    /// Turn to deliver the effects, in load order.
    load: Turn,
}

/// A package to load, and its previous version, which keeps running if the new one does not load.
pub(crate) struct LoadCandidate {
    pub(crate) package: Rc<Package>,
    pub(crate) before: Option<Rc<Package>>,
}

/// Restores the grants of a package before its previous version is loaded.
pub(crate) type TakeBack<'a> = &'a dyn Fn(&ExtensionId);

/// Slots of a candidate: one for the package, followed by one for its previous version.
struct Reserved {
    slot: Result<Rc<Slot>, LoadError>,
    before: Option<Rc<Slot>>,
}

impl Reserved {
    /// Returns the size in bytes of the code that starts first.
    fn code_bytes(&self) -> usize {
        self.slot.as_ref().map_or(0, |slot| slot.cell.borrow().package.code_bytes())
    }
}

impl Host {
    /// Loads packages, concurrently where realms are processes. `take` receives the results of [`Host::load`] in order; if it
    /// returns [`ControlFlow::Break`], loading stops. Needs a running [`Host::drive`].
    pub async fn load_all(
        &self,
        packages: Vec<Package>,
        mut take: impl FnMut(Result<LoadReport, LoadError>) -> ControlFlow<()>,
    ) {
        let alone = |package| LoadCandidate { package: Rc::new(package), before: None };
        self.load_candidates(packages.into_iter().map(alone).collect(), &|_| (), |again| take(again.loaded)).await;
    }

    /// Loads packages like [`Host::load_all`]; if a package does not load as a whole, its previous version is loaded.
    pub(crate) async fn load_candidates(
        &self,
        candidates: Vec<LoadCandidate>,
        take_back: TakeBack<'_>,
        mut take: impl FnMut(LoadAgain) -> ControlFlow<()>,
    ) {
        self.expect(candidates.len());
        // Skipped for one package: the number of cores costs reads of system files.
        let at_once = if candidates.len() > 1 { self.0.services.opener.concurrency() } else { 1 };
        if at_once > 1 {
            self.load_at_once(candidates, at_once, take_back, take).await;
        } else {
            for candidate in candidates {
                let Reserved { slot, before } = self.reserve(candidate);
                let loaded = match slot {
                    Ok(slot) => self.load_into(&slot, FirstLoad::Opens).await,
                    Err(error) => Err(error),
                };
                if take(self.or_before(loaded, before, take_back).await).is_break() {
                    break;
                }
            }
        }
        self.expect(0);
        self.end_loads_without_handlers();
    }

    async fn load_at_once(
        &self,
        candidates: Vec<LoadCandidate>,
        at_once: usize,
        take_back: TakeBack<'_>,
        take: impl FnMut(LoadAgain) -> ControlFlow<()>,
    ) {
        let cores = Arc::new(Semaphore::new(at_once));
        let reserved: Vec<Reserved> = candidates.into_iter().map(|candidate| self.reserve(candidate)).collect();
        let load_order: Vec<usize> = (0..reserved.len()).collect();
        let mut start_order = load_order.clone();
        start_order.sort_by_key(|number| Reverse(reserved[*number].code_bytes()));
        let turns = Turn::in_order(&start_order).into_iter().zip(Turn::in_order(&load_order));
        let mut loads: Vec<Option<CandidateLoad<'_>>> = Vec::new();
        for (Reserved { slot, before }, (start, load)) in reserved.into_iter().zip(turns) {
            let mut turns = Turns { start, load };
            if let Ok(slot) = &slot {
                slot.cell.borrow_mut().ahead = Some(Ahead::default());
            }
            let cores = Arc::clone(&cores);
            loads.push(Some(Box::pin(async move {
                let loaded = self.load_in_turn(slot, &mut turns, cores).await;
                // Later packages wait until the previous version has loaded, too: names are assigned in load order.
                self.or_before(loaded, before, take_back).await
            })));
        }
        each(loads, take).await;
    }

    /// Appends the slots of a candidate.
    fn reserve(&self, LoadCandidate { package, before }: LoadCandidate) -> Reserved {
        let slot = self.add_slot(package);
        let before = before.filter(|_| slot.is_ok()).map(|before| self.reserve_slot(before));
        Reserved { slot, before }
    }

    /// Loads the previous version of a package that failed, as a whole or in an entry, and retires the failed version.
    async fn or_before(
        &self,
        loaded: Result<LoadReport, LoadError>,
        before: Option<Rc<Slot>>,
        take_back: TakeBack<'_>,
    ) -> LoadAgain {
        let has_failed = loaded.as_ref().map_or(true, |report| report.failures().next().is_some());
        let stays = match before.filter(|_| has_failed) {
            Some(before) => self.load_before(&before, take_back).await,
            None => false,
        };
        LoadAgain { loaded, stays }
    }

    /// Returns the packages that are still loading, in load order.
    pub fn still_loading(&self) -> Vec<ExtensionId> {
        let is_loading = |extension: &Extension| {
            extension.status == ExtensionStatus::Loading && !extension.ahead.as_ref().is_some_and(Ahead::has_answered)
        };
        let slots = self.slots().into_iter().filter(|slot| is_loading(&slot.cell.borrow()));
        slots.map(|slot| slot.cell.borrow().package.id().clone()).collect()
    }

    async fn load_in_turn(
        &self,
        slot: Result<Rc<Slot>, LoadError>,
        Turns { start, load }: &mut Turns,
        cores: Arc<Semaphore>,
    ) -> Result<LoadReport, LoadError> {
        start.comes().await;
        let slot = match slot {
            Ok(slot) => slot,
            Err(error) => {
                start.end();
                load.comes().await;
                return Err(error);
            }
        };
        let core = cores.acquire_owned().await.ok();
        start.end();
        if let Some(ahead) = &mut slot.cell.borrow_mut().ahead {
            ahead.core = core;
        }
        let id = slot.cell.borrow().package.id().clone();
        self.0.services.dispatcher.gate().begin_load(&id);
        let begun = self.begin_realm(&slot).transpose();
        // Lets the other loads start while this one's process starts.
        tokio::task::yield_now().await;
        let first = begun.and_then(|begun| self.load_first(&slot, begun));
        if first.is_err() {
            slot.cell.borrow_mut().ahead = Some(Ahead::default());
        }
        load.comes().await;
        self.load_into(&slot, FirstLoad::IsUnderWay(first)).await
    }

    /// Opens a realm and starts the load of the first entry, if there is one.
    fn load_first(
        &self,
        slot: &Rc<Slot>,
        begun: Option<Box<dyn OpeningRealm>>,
    ) -> Result<Option<crate::load::LoadAnswer>, LoadError> {
        self.open_realm(slot, begun)?;
        let has_entries = !slot.cell.borrow().package.entries.is_empty();
        Ok(has_entries.then(|| self.begin_entry(slot, EntryIndex(0))))
    }

    /// Delivers held-back messages of a package whose turn has come.
    pub(crate) fn take_turn(&self, slot: &Rc<Slot>) {
        let ahead = slot.cell.borrow_mut().ahead.take();
        let messages = ahead.map(|ahead| ahead.messages).unwrap_or_default();
        if !messages.is_empty() {
            self.carry_out(slot, messages);
            self.flush_ledger();
        }
    }

    /// Reports the log lines of a realm that ended ahead of its turn. Its other messages are dropped.
    pub(crate) fn report_kept_back(&self, slot: &Rc<Slot>) {
        let kept = slot.cell.borrow_mut().ahead.as_mut().map(std::mem::take);
        for message in kept.into_iter().flat_map(|ahead| ahead.messages) {
            if let Message::Log(entry) = message {
                self.report(slot, None, ReportKind::Log(Box::new(entry)));
            }
        }
    }
}

/// The load of one candidate.
type CandidateLoad<'a> = Pin<Box<dyn Future<Output = LoadAgain> + 'a>>;

/// Starts loads in order, and passes their results on until `take` stops.
async fn each(mut loads: Vec<Option<CandidateLoad<'_>>>, mut take: impl FnMut(LoadAgain) -> ControlFlow<()>) {
    poll_fn(move |context| {
        for load in &mut loads {
            let Some(Poll::Ready(loaded)) = load.as_mut().map(|load| load.as_mut().poll(context)) else { continue };
            *load = None;
            if take(loaded).is_break() {
                return Poll::Ready(());
            }
        }
        if loads.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::Turn;
    use std::cell::RefCell;

    #[test]
    fn turns_come_in_the_order_that_was_named() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let came = RefCell::new(Vec::new());
        let [mut zero, mut one, mut two] = <[Turn; 3]>::try_from(Turn::in_order(&[2, 0, 1])).ok().expect("three");
        runtime.block_on(async {
            // `join!` polls in an order other than the arrival order; the last future ends early.
            tokio::join!(
                async {
                    zero.comes().await;
                    came.borrow_mut().push(0);
                    zero.end();
                },
                async {
                    one.comes().await;
                    came.borrow_mut().push(1);
                },
                async {
                    two.comes().await;
                    came.borrow_mut().push(2);
                    drop(two);
                }
            );
        });
        assert_eq!(came.into_inner(), [2, 0, 1]);
    }
}
