//! What an autoscaler looks at, and how its orders are carried out.

use std::cmp::Reverse;

use super::Routing;
use crate::cluster::autoscale::{Autoscale, Order, Signal, Stage};
use crate::cluster::lane::settle;
use crate::cluster::spec::ChangeKind;
use crate::engine::Engine;
use crate::facts::Observer;
use crate::units::Picos;

impl Routing {
    /// An autoscaler looks, and decides.
    pub(super) fn scale<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        index: usize,
        now: Picos,
        observer: &mut O,
    ) {
        let Autoscale {
            members,
            signal,
            startup,
            ..
        } = &self.scalers[index].spec;
        let (signal, startup) = (*signal, *startup);
        let mut sum = 0.0;
        for &member in members {
            let replica = member as usize;
            if self.payroll.stages[replica] != Stage::Serving {
                continue;
            }
            let (lane, place) = self.places[replica];
            if signal != Signal::InFlight {
                settle(&mut engines[replica], now, observer);
            }
            sum += match signal {
                Signal::InFlight => f64::from(self.lanes[lane].loads[place].requests),
                Signal::Waiting => f64::from(engines[replica].reported_state().waiting),
                Signal::KvUsage => engines[replica].reported_state().kv_usage,
            };
        }
        for order in self.scalers[index].decide(now, sum, &self.payroll.stages) {
            match order {
                Order::Start(replica) => {
                    self.payroll.start(replica as usize, now);
                    if let Some(at) = now.checked_add(startup) {
                        self.changes.push(Reverse((at, replica, ChangeKind::Up)));
                    }
                }
                Order::Keep(replica) => {
                    self.payroll.stages[replica as usize] = Stage::Serving;
                    self.load(replica as usize).is_up = true;
                }
                Order::Drain(replica) => {
                    let replica = replica as usize;
                    self.payroll.drain(replica);
                    let load = self.load(replica);
                    load.is_up = false;
                    if load.requests == 0 {
                        self.payroll.give_back(replica, now);
                    }
                }
            }
        }
    }
}
