//! `np.random.seed` and the functions of `np.random`: a Mersenne Twister, and laws that NumPy promises never to change.

use rand_mt::Mt;

/// `numpy.random.RandomState`.
#[derive(Clone, Debug)]
pub struct RandomState {
    twister: Mt,
    /// Normals are made in pairs; the second waits for the next call.
    spare_normal: Option<f64>,
}

impl RandomState {
    /// As `np.random.seed(seed)` leaves it (`_legacy_seeding`), which takes seeds below 2³².
    #[must_use]
    pub fn new(seed: u32) -> RandomState {
        RandomState {
            twister: Mt::new(seed),
            spare_normal: None,
        }
    }

    /// A whole number from 0 to `most`, both included (`randint`, `buffered_bounded_masked_uint32`): words cut to the bits of
    /// `most` until one is not above it. A range of one number draws nothing.
    pub fn integer(&mut self, most: u32) -> u32 {
        if most == 0 {
            return 0;
        }
        let mask = u32::MAX >> most.leading_zeros();
        loop {
            let value = self.twister.next_u32() & mask;
            if value <= most {
                return value;
            }
        }
    }

    /// In [0, 1), of 53 bits (`mt19937_next_double`).
    pub fn uniform(&mut self) -> f64 {
        let high = f64::from(self.twister.next_u32() >> 5);
        let low = f64::from(self.twister.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// Exponential of mean 1 (`legacy_standard_exponential`).
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Normal of mean 0 and variance 1 by Marsaglia's polar method (`legacy_gauss`).
    fn normal(&mut self) -> f64 {
        if let Some(normal) = self.spare_normal.take() {
            return normal;
        }
        loop {
            let x = 2.0 * self.uniform() - 1.0;
            let y = 2.0 * self.uniform() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare_normal = Some(factor * x);
                return factor * y;
            }
        }
    }

    /// Gamma of the given shape, above 0, and scale 1 (`legacy_standard_gamma`): exponential at 1, by rejection below
    /// (Ahrens and Dieter 1974) and above (Marsaglia and Tsang 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        assert!(shape > 0.0, "the shape of a gamma law is positive");
        if shape == 1.0 {
            self.exponential()
        } else if shape < 1.0 {
            self.gamma_below_one(shape)
        } else {
            self.gamma_above_one(shape)
        }
    }

    fn gamma_below_one(&mut self, shape: f64) -> f64 {
        loop {
            let u = self.uniform();
            let v = self.exponential();
            let (x, up_to) = if u <= 1.0 - shape {
                (u.powf(1.0 / shape), v)
            } else {
                let y = -((1.0 - u) / shape).ln();
                ((1.0 - shape + shape * y).powf(1.0 / shape), v + y)
            };
            if x <= up_to {
                return x;
            }
        }
    }

    fn gamma_above_one(&mut self, shape: f64) -> f64 {
        let b = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * b).sqrt();
        loop {
            let (x, root) = loop {
                let x = self.normal();
                let root = 1.0 + c * x;
                if root > 0.0 {
                    break (x, root);
                }
            };
            let v = root * root * root;
            let u = self.uniform();
            let is_surely_in = u < 1.0 - 0.0331 * (x * x) * (x * x);
            if is_surely_in || u.ln() < 0.5 * x * x + b * (1.0 - v + v.ln()) {
                return b * v;
            }
        }
    }
}
