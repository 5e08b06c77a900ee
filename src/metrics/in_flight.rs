//! Where an unfinished request is.

use crate::units::Picos;
use crate::window::Window;
use crate::workload::Request;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Waiting,
    Running,
    /// Its answer is on the way to its client.
    Leaving,
}

/// What is remembered of an unfinished request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) arrival: Picos,
    /// Since when it is where it is.
    pub(super) since: Picos,
    /// Time spent running in visits that are over.
    pub(super) ran: Picos,
    pub(super) place: Place,
    pub(super) class: u32,
    /// Output tokens that it asks for.
    pub(super) asked: u32,
    /// It was sent again after its replica failed: no single server tells all of its story.
    pub(super) is_again: bool,
}

impl Live {
    /// A request arrives and waits.
    pub(super) fn arriving(request: &Request) -> Live {
        Live {
            arrival: request.arrival,
            since: request.arrival,
            ran: Picos::ZERO,
            place: Place::Waiting,
            class: request.class,
            asked: request.output_tokens,
            is_again: false,
        }
    }
}

/// The unfinished requests.
pub(super) type InFlight = Window<Live>;
