//! What the GPUs of an answer cost: one object, `cost`, wherever it is told, by `run`, `sweep` and every kind of `knee`.

use super::value::{Object, Value};
use crate::analysis::costs::Rent;

/// What is paid, and what for it is served.
#[derive(Default)]
pub(super) struct Cost {
    /// GPUs that are paid for; of replicas that come and go on average.
    pub(super) gpus: Option<f64>,
    /// US dollars an hour of all of them.
    pub(super) usd_per_hour: Option<f64>,
    /// US dollars per million output tokens.
    pub(super) usd_per_million_output_tokens: Option<f64>,
    /// US dollars per million tokens, prompts and outputs.
    pub(super) usd_per_million_tokens: Option<f64>,
    /// Pools and US dollars an hour of each; empty where there is but one.
    pub(super) by_pool: Vec<(String, f64)>,
    /// Where the prices are from; empty where none is known.
    pub(super) prices: String,
}

impl Cost {
    /// Of GPUs that are rented, with prompt and output tokens per second where these are known.
    pub(super) fn of(rent: &Result<Rent, String>, tokens_per_s: Option<(f64, f64)>) -> Cost {
        let Ok(rent) = rent else {
            return Cost::default();
        };
        let (prompt, output) = tokens_per_s.unzip();
        let per_million = |tokens: Option<f64>| rent.usd_per_million(tokens?);
        Cost {
            gpus: Some(rent.gpus()),
            usd_per_hour: Some(rent.usd_per_hour()),
            usd_per_million_output_tokens: per_million(output),
            usd_per_million_tokens: per_million(prompt.zip(output).map(|(prompt, output)| prompt + output)),
            by_pool: rent.by_pool(),
            prices: rent.source.clone(),
        }
    }

    /// Keys of what is not known are `null`.
    pub(super) fn object(&self) -> Object {
        let mut object = Object::default();
        object.put("gpus", self.gpus.map_or(Value::Null, gpus));
        object.put("usd_per_hour", self.usd_per_hour);
        object.put(
            "usd_per_million_output_tokens",
            self.usd_per_million_output_tokens,
        );
        object.put("usd_per_million_tokens", self.usd_per_million_tokens);
        let mut each = Object::default();
        for (name, usd) in &self.by_pool {
            each.put(name, *usd);
        }
        object.put("usd_per_hour_by_pool", Value::Object(each));
        let prices = (!self.prices.is_empty()).then(|| self.prices.clone());
        object.put("prices", prices.map_or(Value::Null, Value::Text));
        object
    }
}

/// A whole number, but for a mean.
fn gpus(number: f64) -> Value {
    match number.fract() == 0.0 {
        true => (number as u64).into(),
        false => number.into(),
    }
}
