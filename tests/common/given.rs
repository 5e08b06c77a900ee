//! Traffic that was made beforehand, and how its requests ended.

use plimsoll::ids::RequestId;
use plimsoll::sim::{Completion, Fact, Observer};
use plimsoll::units::Picos;
use plimsoll::workload::{Request, Traffic};

/// Requests in order of arrival.
pub(crate) struct Given(pub(crate) std::vec::IntoIter<Request>);

impl Traffic for Given {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.0.as_slice().first().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.0.next().expect("taken only after it was announced")
    }

    fn ended(&mut self, _: RequestId, _: Picos) {}
}

/// Those that ended, in that order.
#[derive(Default)]
pub(crate) struct Ends(pub(crate) Vec<Completion>);

impl Observer for Ends {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(completion) = fact {
            self.0.push((*completion).clone());
        }
    }
}
