//! What an autoscaler looks at, and how its orders are carried out.

use super::Routing;
use crate::cluster::autoscale::{Autoscale, Order, Signal};
use crate::cluster::lane::settle;
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
            if !self.lives.is_up(replica) {
                continue;
            }
            let (lane, place) = self.places[replica];
            if signal != Signal::InFlight {
                settle(&mut engines[replica], now, observer);
            }
            sum += match signal {
                Signal::InFlight => f64::from(self.lanes[lane].dispatch.loads[place].requests),
                Signal::Waiting => f64::from(engines[replica].reported_state().waiting),
                Signal::KvUsage => engines[replica].reported_state().kv_usage,
            };
        }
        let lives = &self.lives;
        for order in self.scalers[index].decide(now, sum, |replica| lives.stage(replica as usize)) {
            match order {
                Order::Start(replica) => self.lives.start(replica as usize, now, startup),
                Order::Cancel(replica) => self.lives.cancel(replica as usize, now),
                Order::Keep(replica) => {
                    self.lives.keep(replica as usize, now);
                    self.load(replica as usize).is_up = true;
                }
                Order::Drain(replica) => {
                    self.lives.drain(replica as usize, now);
                    self.drains(replica as usize, now);
                }
            }
        }
    }
}
