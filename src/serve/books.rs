//! What is kept of what happens, for whoever looks while it goes on: metrics of engines, and what became of each class.

use crate::analysis::class_limits;
use crate::metrics::scraped::Scraped;
use crate::metrics::{Fleet, PartSummary, Recorder, RecorderOptions, Records, Room, SloLimits};
use crate::report::prometheus::{self, Exposition};
use crate::sim::{Fact, Observer, Scenario, Simulation};
use crate::units::Picos;
use crate::workload::Posted;

/// The observer.
pub(super) struct Books {
    pub(super) scraped: Scraped,
    /// Where there are classes.
    of_classes: Option<Recorder>,
    /// What classes are called, and whether anything is promised to them.
    names: Vec<(String, bool)>,
}

impl Books {
    /// Of the servers of a scenario, before they begin; limits are those of classes without any of their own.
    pub(super) fn new(scenario: &Scenario, simulation: &Simulation<Posted>, limits: SloLimits) -> Books {
        let classes = &scenario.workload.classes;
        let rooms = simulation.total_blocks().zip(scenario.block_sizes());
        let rooms = rooms.map(|(kv_blocks, block_size)| Room {
            kv_blocks,
            block_size,
        });
        let options = RecorderOptions {
            fleet: Fleet {
                rooms: rooms.collect(),
                pools: scenario.pool_of_each(),
            },
            slo: limits,
            records: Records::None,
        };
        let limits = class_limits(scenario, limits);
        let names = classes.iter().zip(&limits);
        let names = names.map(|(class, limits)| (class.name.clone(), limits.any()));
        let names = names.collect();
        let recorder = || Recorder::new(options).with_classes(limits).in_one_stretch();
        Books {
            scraped: Scraped::new(scenario),
            of_classes: (!classes.is_empty()).then(recorder),
            names,
        }
    }

    /// What became of each class so far; nothing without classes.
    pub(super) fn by_class(&self) -> &[PartSummary] {
        self.of_classes.as_ref().map_or(&[], Recorder::by_class)
    }

    /// What a scrape at `now` shows.
    pub(super) fn metrics(&self, exposition: &Exposition<'_>, now: Picos) -> String {
        let names = self.names.iter();
        let names: Vec<(&str, bool)> = names
            .map(|(name, is_promised)| (name.as_str(), *is_promised))
            .collect();
        let of_engines = prometheus::text(&self.scraped, exposition, now);
        of_engines + &prometheus::of_classes(&names, self.by_class())
    }
}

impl Observer for Books {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.scraped.observe(fact);
        if let Some(recorder) = &mut self.of_classes {
            recorder.observe(fact);
        }
    }
}
