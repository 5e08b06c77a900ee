//! One calibration over another: what one lacks, the other lends, at the trust that it then has.

use super::{Calibration, KernelFormat};
use crate::cost::Trust;

impl Calibration {
    /// This calibration with what it lacks taken from `base`, at most at trust `Prior`.
    #[must_use]
    pub fn over(mut self, base: &Calibration) -> Calibration {
        for (format, gemm) in &base.gemm {
            self.gemm.entry(*format).or_insert_with(|| gemm.clone());
        }
        for (format, moe) in &base.moe {
            self.moe.entry(*format).or_insert_with(|| moe.clone());
        }
        for (engine, host) in &base.host {
            self.host.entry(engine.clone()).or_insert_with(|| host.clone());
        }
        // Whoever timed their own links has no other's fused.
        let own: Vec<u32> = (self.allreduce.iter().chain(&self.fused_allreduce))
            .map(|link| link.gpus)
            .collect();
        let lent = base
            .fused_allreduce
            .iter()
            .filter(|link| !own.contains(&link.gpus));
        self.fused_allreduce.extend(lent.cloned());
        self.fused_allreduce.sort_by_key(|link| link.gpus);
        for link in &base.allreduce {
            if self.allreduce.iter().all(|own| own.gpus != link.gpus) {
                self.allreduce.push(link.clone());
            }
        }
        self.allreduce.sort_by_key(|link| link.gpus);
        for (direction, copies) in &base.copies {
            self.copies.entry(*direction).or_insert(*copies);
        }
        self.attention = self.attention.or_else(|| base.attention.clone());
        self.elementwise = self.elementwise.or_else(|| base.elementwise.clone());
        self
    }

    /// Trust of its source, or of its products where those are known less well, as in a file that a probe wrote on another card; in a
    /// file without products that of its hosts.
    #[must_use]
    pub fn trust(&self) -> Trust {
        let source = self.provenance.source.trust();
        let products = self.gemm.get(&KernelFormat::Bf16).map(|products| products.trust);
        let hosts = self.host.values().map(|host| host.trust);
        let hosts = hosts.max().filter(|_| self.gemm.is_empty());
        products.or(hosts).map_or(source, |known| known.max(source))
    }

    /// Lowers every block's trust to `worst` at best, as when parameters of one card are used for another.
    #[must_use]
    pub fn distrusted(mut self, worst: Trust) -> Calibration {
        self.gemm
            .values_mut()
            .for_each(|gemm| gemm.trust = gemm.trust.max(worst));
        self.moe
            .values_mut()
            .for_each(|moe| moe.trust = moe.trust.max(worst));
        self.host
            .values_mut()
            .for_each(|host| host.trust = host.trust.max(worst));
        self.allreduce
            .iter_mut()
            .chain(&mut self.fused_allreduce)
            .for_each(|link| link.trust = link.trust.max(worst));
        if let Some(attention) = &mut self.attention {
            attention.trust = attention.trust.max(worst);
        }
        if let Some(elementwise) = &mut self.elementwise {
            elementwise.trust = elementwise.trust.max(worst);
        }
        self
    }
}
