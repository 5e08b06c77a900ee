//! NumPy's random numbers, draw for draw.
//!
//! Benchmark clients draw their requests with NumPy from a seed that they are given, so whoever wants to know what they
//! send draws as it does. NumPy has two doors: [`RandomState`] is what `np.random.seed` and the functions of `np.random`
//! use, and [`Generator`] is `np.random.default_rng`. Bare generators are crates; what stands here is how NumPy seeds them
//! and makes integers and laws of their words (numpy 2.4, the same since 1.17).
//!
//! Law: integers equal NumPy's, and floats but for the last digits of a platform's `log` and `pow`.
//! `tests/data/numpy/draws.py` asked NumPy.

mod generator;
mod legacy;

pub use generator::Generator;
pub use legacy::RandomState;

#[cfg(test)]
mod tests;
