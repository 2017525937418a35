//! Calls tools, commands and callbacks: functions in a realm, by name or handle.

use crate::emit::{dropped, signal_ref};
use crate::extension::{OrderedAnswer, Slot, ToolWaiter};
use crate::host::Host;
use crate::message_limits;
use crate::outcome::{CallbackOutcome, CommandOutcome, RegistrationOwner, ToolOutcome};
use crate::report::{ReportKind, plain_error};
use crate::signal::Signal;
use crate::tool_result::wrong_tool_result;
use crate::waiter::Waiter;
use pijs_protocol::message::{Callback, Message, SlashCommand, ToolCall, ToolResult};
use pijs_protocol::{EntryIndex, ExtensionId, Handle, Termination};
use serde_json::Value;
use std::rc::Rc;
use tokio::sync::{mpsc, oneshot};

impl Host {
    /// Runs a tool of an extension.
    ///
    /// `input` contains the validated arguments; `signal` is the signal of `execute`; `on_update` receives partial results, all
    /// of them before this returns.
    pub async fn call_tool(
        &self,
        name: &str,
        tool_call_id: &str,
        input: Value,
        signal: Option<&Signal>,
        mut on_update: impl FnMut(Value),
    ) -> ToolOutcome {
        let found = self.live_slots().into_iter().find_map(|slot| {
            let found = slot
                .cell
                .borrow()
                .registry
                .tools()
                .find(|(_, spec)| spec.name == name)
                .map(|(entry, spec)| (entry, spec.handle));
            found.map(|(entry, handle)| (slot, entry, handle))
        });
        let Some((slot, entry, handle)) = found else { return ToolOutcome::Unknown };
        if slot.cell.borrow().pending.tools.contains_key(tool_call_id) {
            let message = format!("Tool call id {tool_call_id} is in use by a call that has not ended");
            return ToolOutcome::Threw(plain_error(entry, "tool", message));
        }
        let (updates, mut partials) = mpsc::unbounded_channel();
        let (done, mut receiver) = oneshot::channel();
        let done = self.waiter(done);
        slot.cell.borrow_mut().pending.tools.insert(tool_call_id.to_owned(), ToolWaiter { updates, done });
        let signal = signal.map(|signal| self.hand_in(&slot, signal));
        let call =
            ToolCall { tool_call_id: tool_call_id.to_owned(), entry, handle, name: name.to_owned(), input, signal };
        self.send(&slot, Message::ToolCall(call));
        let result = loop {
            tokio::select! {
                biased;
                Some(partial) = partials.recv() => on_update(partial),
                result = &mut receiver => break result.unwrap_or_else(|_| Err(dropped())),
            }
        };
        // Updates of the turn that returned the result are already in the channel.
        while let Ok(partial) = partials.try_recv() {
            on_update(partial);
        }
        match result {
            Ok(OrderedAnswer { result, place }) => {
                place.after_earlier_answers().await;
                self.outcome_of(&slot, entry, name, result)
            }
            Err(reason) => ToolOutcome::Ended(reason),
        }
    }

    fn outcome_of(&self, slot: &Rc<Slot>, entry: EntryIndex, name: &str, result: ToolResult) -> ToolOutcome {
        match result.error {
            Some(error) => ToolOutcome::Threw(self.located(slot, error)),
            None if result.is_error => {
                ToolOutcome::Threw(plain_error(entry, "tool", "the tool failed without an error message".to_owned()))
            }
            None => {
                if let Some(message) = wrong_tool_result(name, &result.output) {
                    self.report(slot, Some(entry), ReportKind::Warning { message });
                }
                ToolOutcome::Returned(result.output)
            }
        }
    }

    /// Runs a slash command by its invocation name ([`Host::commands`]); `args` is the text after the single space that follows
    /// the name.
    pub async fn run_command(&self, name: &str, args: &str) -> CommandOutcome {
        let Some(command) = self.commands().into_iter().find(|command| command.invocation == name) else {
            return CommandOutcome::Unknown;
        };
        let Some(slot) = self.slot_of(&command.owner) else { return CommandOutcome::Unknown };
        let id = format!("cmd-{}", self.next_call_number());
        let (sender, receiver) = oneshot::channel();
        slot.cell.borrow_mut().pending.commands.insert(id.clone(), self.waiter(sender));
        let message = SlashCommand {
            slash_command_id: id,
            entry: command.owner.entry,
            handle: command.spec.handle,
            name: name.to_owned(),
            args: args.to_owned(),
        };
        self.send(&slot, Message::SlashCommand(message));
        match receiver.await.unwrap_or_else(|_| Err(dropped())) {
            Ok(result) => match result.error {
                Some(error) => CommandOutcome::Threw(self.located(&slot, error)),
                None => CommandOutcome::Done,
            },
            Err(reason) => CommandOutcome::Ended(reason),
        }
    }

    /// Calls a function that an extension registered: completions of a command, a renderer.
    ///
    /// Handles belong to the realm that issued them; look them up again after a restart.
    pub async fn call_back(
        &self,
        extension: &ExtensionId,
        entry: EntryIndex,
        handle: Handle,
        args: Vec<Value>,
    ) -> CallbackOutcome {
        let owner = RegistrationOwner { extension: extension.clone(), entry, path: String::new() };
        let Some(slot) = self.slot_of(&owner) else { return CallbackOutcome::Gone };
        let id = format!("cb-{}", self.next_call_number());
        let (sender, receiver) = oneshot::channel();
        slot.cell.borrow_mut().pending.callbacks.insert(id.clone(), self.waiter(sender));
        self.send(&slot, Message::Callback(Callback { callback_id: id, entry, handle, args }));
        match receiver.await.unwrap_or_else(|_| Err(dropped())) {
            Ok(result) => match result.error {
                Some(error) => CallbackOutcome::Threw(self.located(&slot, error)),
                None => CallbackOutcome::Returned(result.value),
            },
            Err(reason) => CallbackOutcome::Ended(reason),
        }
    }

    /// Calls a function with an abort signal as the last argument; `on_update` receives the updates that the function sends while
    /// it runs.
    pub async fn call_back_streaming(
        &self,
        owner: &RegistrationOwner,
        handle: Handle,
        mut args: Vec<Value>,
        signal: &Signal,
        mut on_update: impl AsyncFnMut(Value),
    ) -> CallbackOutcome {
        let Some(slot) = self.slot_of(owner) else { return CallbackOutcome::Gone };
        let id = format!("cb-{}", self.next_call_number());
        let (sender, mut receiver) = oneshot::channel();
        let (updates, mut arriving) = message_limits::updates();
        args.push(signal_ref(self.hand_in(&slot, signal)));
        {
            let pending = &mut slot.cell.borrow_mut().pending;
            pending.callbacks.insert(id.clone(), self.waiter(sender));
            pending.callback_updates.insert(id.clone(), updates);
        }
        self.send(&slot, Message::Callback(Callback { callback_id: id, entry: owner.entry, handle, args }));
        let result = loop {
            tokio::select! {
                biased;
                Some(update) = arriving.recv() => on_update(update).await,
                result = &mut receiver => break result.unwrap_or_else(|_| Err(dropped())),
            }
        };
        while let Some(update) = arriving.try_recv() {
            on_update(update).await;
        }
        match result {
            Ok(result) => match result.error {
                Some(error) => CallbackOutcome::Threw(self.located(&slot, error)),
                None => CallbackOutcome::Returned(result.value),
            },
            Err(reason) => CallbackOutcome::Ended(reason),
        }
    }

    /// Creates a waiter with the current time.
    fn waiter<T>(&self, done: oneshot::Sender<Result<T, Termination>>) -> Waiter<T> {
        Waiter::new(done, self.0.services.timer.now().elapsed_us)
    }

    /// Queues a message and runs what is ready.
    fn send(&self, slot: &Rc<Slot>, message: Message) {
        self.post(slot, message);
        self.ingest();
        self.run_ready(slot);
    }

    fn slot_of(&self, owner: &RegistrationOwner) -> Option<Rc<Slot>> {
        self.live_slots().into_iter().find(|slot| *slot.cell.borrow().package.id() == owner.extension)
    }
}
