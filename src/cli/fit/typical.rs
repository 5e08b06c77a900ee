//! The request beside the longest one of which a fit tells how many the pool holds: as given, the mean of the scenario's traffic, or a
//! chat turn.

use super::Args;
use crate::cli::figures::grouped;
use crate::config::Capacity;

/// A chat turn as the course and many benchmarks have it.
const PROMPT: u64 = 1024;
const OUTPUT: u64 = 128;

/// Prompt and answer of a usual request, each with where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Typical {
    prompt: (u64, Origin),
    output: (u64, Origin),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Given,
    Traffic,
    Assumed,
}

impl Typical {
    /// By the flags, else by the traffic, else a chat turn.
    pub(super) fn of(args: &Args, question: &Capacity) -> Typical {
        let mean = question.mean_request;
        let pick = |given: Option<u64>, mean: Option<f64>, usual| match (given, mean) {
            (Some(tokens), _) => (tokens, Origin::Given),
            (None, Some(tokens)) => (tokens.round() as u64, Origin::Traffic),
            (None, None) => (usual, Origin::Assumed),
        };
        Typical {
            prompt: pick(args.input_len.map(|len| len.0), mean.map(|mean| mean.0), PROMPT),
            output: pick(args.output_len.map(|len| len.0), mean.map(|mean| mean.1), OUTPUT),
        }
    }

    /// Its tokens, as far as the context takes them.
    pub(super) fn tokens(self, question: &Capacity) -> u32 {
        let tokens = self.prompt.0.saturating_add(self.output.0);
        tokens.min(u64::from(question.max_model_len)) as u32
    }

    fn has(self, origin: Origin) -> bool {
        self.prompt.1 == origin || self.output.1 == origin
    }

    /// `1,366 tokens, the traffic's mean`, or that the context is too short for it.
    pub(super) fn told(self, question: &Capacity) -> Result<String, String> {
        let (behind, alone) = if self.has(Origin::Assumed) {
            (" typical", "a typical request")
        } else if self.has(Origin::Given) {
            (" as given", "the request that is given")
        } else {
            (" in the traffic's mean", "the traffic's mean request")
        };
        let tokens = self.prompt.0.saturating_add(self.output.0);
        match tokens <= u64::from(question.max_model_len) {
            true => Ok(format!("{} tokens{behind}", grouped(tokens))),
            false => Err(format!("{alone} is longer")),
        }
    }

    /// `1,155 in, 211 out, the mean of the scenario's traffic`.
    pub(super) fn origin(self) -> String {
        let why = |origin| match origin {
            Origin::Given => "as given",
            Origin::Traffic => "the mean of the scenario's traffic",
            Origin::Assumed => "assumed, a chat turn",
        };
        let (prompt, output) = (self.prompt, self.output);
        let (tokens_in, tokens_out) = (grouped(prompt.0), grouped(output.0));
        match prompt.1 == output.1 {
            true => format!("{tokens_in} in + {tokens_out} out ({})", why(prompt.1)),
            false => format!(
                "{tokens_in} in ({}) + {tokens_out} out ({})",
                why(prompt.1),
                why(output.1)
            ),
        }
    }

    /// The lengths that nobody gave, as flags.
    pub(super) fn assumed(self) -> Vec<String> {
        let of =
            |(tokens, origin), flag: &str| (origin == Origin::Assumed).then(|| format!("{flag} {tokens}"));
        let flags = [of(self.prompt, "--input-len"), of(self.output, "--output-len")];
        flags.into_iter().flatten().collect()
    }
}
