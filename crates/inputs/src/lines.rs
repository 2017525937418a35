//! Admits callers one at a time, in the order of arrival.

use crate::Line;
use std::collections::VecDeque;

/// The tickets of each [`Line`].
#[derive(Debug, Default)]
pub(crate) struct TicketLines {
    issued: u64,
    tickets: [VecDeque<u64>; Line::ALL.len()],
}

impl TicketLines {
    pub(crate) fn enter(&mut self, line: Line) -> u64 {
        self.issued += 1;
        self.tickets[line as usize].push_back(self.issued);
        self.issued
    }

    pub(crate) fn leave(&mut self, line: Line, ticket: u64) {
        self.tickets[line as usize].retain(|known| *known != ticket);
    }

    pub(crate) fn is_first(&self, line: Line, ticket: u64) -> bool {
        self.tickets[line as usize].front() == Some(&ticket)
    }
}
