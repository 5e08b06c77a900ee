//! Where starts come from: instants that ask nobody, or users who think.

use crate::units::Picos;
use crate::workload::arrivals::Instants;
use crate::workload::client::Users;
use crate::workload::{Arrivals, WorkloadSpec};

/// Where starts come from.
#[derive(Debug)]
pub(super) enum Starts {
    Open {
        instants: Box<Instants>,
        next: Option<Picos>,
    },
    Users(Users),
}

impl Starts {
    pub(super) fn new(spec: &WorkloadSpec, seed: u64) -> Starts {
        if let Arrivals::Users { users, think_time } = spec.arrivals {
            return Starts::Users(Users::new(users, think_time, seed));
        }
        let is_rescaled = spec.client.rescale_arrivals && !spec.has_conversations();
        let mut instants = Box::new(Instants::new(spec, seed, is_rescaled));
        let next = instants.next();
        Starts::Open { instants, next }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<Picos> {
        match self {
            Starts::Open { next, .. } => *next,
            Starts::Users(users) => users.peek(),
        }
    }

    /// Takes the next start; the user who makes it, if there are users.
    pub(super) fn take(&mut self) -> Option<u32> {
        match self {
            Starts::Open { instants, next } => {
                *next = instants.next();
                None
            }
            Starts::Users(users) => Some(users.take()),
        }
    }
}
