//! The books of the payment service: the only truth about what was charged.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// One charge. Nothing takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// From 1 on, over all orders.
    pub number: u64,
    /// The order that it is for.
    pub order: u64,
    /// How much.
    pub amount_cents: u64,
}

impl Charge {
    /// As the service answers it.
    pub fn json(&self) -> Value {
        let Charge {
            number,
            order,
            amount_cents,
        } = self;
        json!({ "charge": number, "order": order, "amount_cents": amount_cents })
    }
}

/// What the service has written down.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    charges: Vec<Charge>,
    receipts: u64,
    attempts: BTreeMap<u64, u32>,
    arrived: BTreeMap<u64, u32>,
}

impl Ledger {
    /// One more request for `order` is on its way; its number, from 1 on. This is the plan's count,
    /// not the service's: it takes in what never arrives.
    pub fn attempt(&self, order: u64) -> u32 {
        count(&mut self.book().attempts, order)
    }

    /// The service has a request for `order`.
    pub fn arrive(&self, order: u64) {
        count(&mut self.book().arrived, order);
    }

    /// Charges.
    pub fn charge(&self, order: u64, amount_cents: u64) -> Charge {
        let mut book = self.book();
        let charge = Charge {
            number: book.charges.len() as u64 + 1,
            order,
            amount_cents,
        };
        book.charges.push(charge);
        charge
    }

    /// Sends a receipt; their number so far.
    pub fn send_receipt(&self) -> u64 {
        let mut book = self.book();
        book.receipts += 1;
        book.receipts
    }

    /// Requests for `order` that reached the service.
    pub fn arrived(&self, order: u64) -> u32 {
        self.book().arrived.get(&order).copied().unwrap_or(0)
    }

    /// What `order` was charged, oldest first.
    pub fn charges_of(&self, order: u64) -> Vec<Charge> {
        let book = self.book();
        let own = book.charges.iter().filter(|charge| charge.order == order);
        own.copied().collect()
    }

    /// All charges, oldest first.
    pub fn charges(&self) -> Vec<Charge> {
        self.book().charges.clone()
    }

    /// Receipts sent.
    pub fn receipts(&self) -> u64 {
        self.book().receipts
    }

    /// Held for a moment only; each write is whole, so that a panic elsewhere spoils nothing.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(of: &mut BTreeMap<u64, u32>, order: u64) -> u32 {
    let number = of.entry(order).or_default();
    *number += 1;
    *number
}
