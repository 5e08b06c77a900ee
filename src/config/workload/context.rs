//! Prompts and the engine's context: which fit, and what becomes of those that do not.
//!
//! A server answers a prompt that leaves no room for an answer with HTTP 400 and goes on. Here that is an error, because a
//! context that is too short is a mistake more often than a plan, unless `refuse_too_long` says that it is meant. A class of
//! whose requests none fits stays an error: nothing of it would be served.

use super::sizes::longest;
use super::too_long::{TooLong, too_long};
use crate::config::judge::Judge;
use crate::config::raw::RawWorkload;
use crate::workload::{Prefix, WorkloadSpec};

/// A server's context.
#[derive(Clone, Copy)]
pub(in crate::config) struct Context<'a> {
    /// The key that sets it.
    pub(in crate::config) key: &'a str,
    /// Its tokens.
    pub(in crate::config) tokens: u32,
    /// Tokens that it must have beyond the prompt: 1 for an answer, or as many as the server asks for at its door.
    pub(in crate::config) door: u32,
    /// What the model allows.
    pub(in crate::config) of_model: Option<u32>,
    /// The longest prompt that is sent to it.
    pub(in crate::config) most_prompt: u32,
    /// What does not fit is refused one by one.
    pub(in crate::config) refuses: bool,
}

/// Whether the server refuses one by one what does not fit.
pub(in crate::config) fn refuses_too_long(judge: &mut Judge, raw: &RawWorkload) -> bool {
    if let Some(asked) = raw.refuse_too_long {
        judge.given("workload.refuse_too_long", asked);
    }
    raw.refuse_too_long.unwrap_or(false)
}

impl Context<'_> {
    /// The name of its key.
    fn name(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// Tokens of the longest prompt that is let in.
    fn longest_prompt(&self) -> u32 {
        self.tokens.saturating_sub(self.door)
    }
}

/// Prompts must leave room for at least one output token in the engine's context.
pub(in crate::config) fn check_context(
    judge: &mut Judge,
    spec: &WorkloadSpec,
    class: Option<(usize, &str)>,
    context: Context<'_>,
) {
    let (prompt, output, key) = longest(spec);
    let prompt = prompt.min(u64::from(context.most_prompt));
    if !context.refuses {
        let needed = prompt.saturating_add(u64::from(context.door));
        judge.least_context = judge.least_context.max(u32::try_from(needed).unwrap_or(u32::MAX));
    }
    let most = context.longest_prompt();
    if prompt <= u64::from(most) {
        return note_cut(judge, (prompt, output), context);
    }
    let found = too_long(spec, most, context.most_prompt);
    if context.refuses && !found.is_all() {
        judge.notes.push(refused(spec, class, &found, (context, prompt)));
        return note_cut(judge, longest_served(spec, most, output), context);
    }
    let key = match class {
        None => key.to_string(),
        Some((index, _)) => key.replacen("workload.", &format!("workload.classes.{index}."), 1),
    };
    let problem = judge.wrong(
        &key,
        "does not fit the engine's context",
        label(&found, prompt, context),
    );
    problem.help.push(larger(prompt, output, context));
    if !found.is_all() {
        problem.help.push(format!(
            "--refuse-too-long, or refuse_too_long = true in [workload], has the server refuse {}, as vLLM does with HTTP 400, and \
             serve the rest",
            found.share_of_requests()
        ));
    }
}

/// Answers that end at the context, where any may.
fn note_cut(judge: &mut Judge, (prompt, output): (u64, u64), context: Context<'_>) {
    if prompt + output > u64::from(context.tokens) {
        judge.notes.push(format!(
            "answers are cut where prompt plus output reach {} = {} (up to {prompt} + {output} tokens are asked for)",
            context.name(),
            context.tokens
        ));
    }
}

/// The longest prompt and the longest answer of those that are let in with up to `most` tokens, where `output` is that of all.
fn longest_served(spec: &WorkloadSpec, most: u32, output: u64) -> (u64, u64) {
    let Some(requests) = spec.listed() else {
        return (u64::from(most), output);
    };
    let served = || requests.iter().filter(|request| request.prompt_tokens <= most);
    let prompt = served().map(|request| request.prompt_tokens).max();
    let output = served().map(|request| request.output_tokens).max();
    (prompt.unwrap_or(0).into(), output.unwrap_or(0).into())
}

/// What is too long, beside what there is room for.
fn label(found: &TooLong, prompt: u64, context: Context<'_>) -> String {
    let (name, tokens) = (context.name(), context.tokens);
    let told = found.of_file().map_or(String::new(), |told| format!(" ({told})"));
    match prompt >= u64::from(tokens) {
        true => format!("prompts of up to {prompt} tokens{told}, and {name} is {tokens}"),
        false => format!(
            "prompts of up to {prompt} tokens{told}, and with {name} = {tokens} the server takes at most {}",
            context.longest_prompt()
        ),
    }
}

/// The context that has room for all of it, as far as the model allows.
fn larger(prompt: u64, output: u64, context: Context<'_>) -> String {
    let (name, door) = (context.name(), u64::from(context.door));
    let needed = prompt + output.max(door);
    match context.of_model.map(u64::from) {
        Some(most) if most >= prompt + door => {
            format!("write {name} = {} or more, or shorter prompts", needed.min(most))
        }
        Some(most) => format!(
            "the model allows {most} tokens: at most {} for the prompt",
            most.saturating_sub(door)
        ),
        None => format!("write {name} = {needed} or more"),
    }
}

/// What is said of prompts that the server refuses.
fn refused(
    spec: &WorkloadSpec,
    class: Option<(usize, &str)>,
    found: &TooLong,
    (context, prompt): (Context<'_>, u64),
) -> String {
    let whose = class.map_or(String::new(), |(_, name)| format!("class {name}: "));
    let told = found.of_file().unwrap_or_else(|| found.share_of_requests());
    let growing = match spec.prefix {
        Prefix::Sessions { .. } => "; later turns, whose prompts grow, may follow",
        Prefix::Recorded(_) => "; a conversation ends where one is refused",
        _ => "",
    };
    format!(
        "{whose}the server refuses prompts of more than {} tokens, as refuse_too_long asks ({} = {}): {told}; they have up to {prompt} \
         tokens, and count as sent and as refused{growing}",
        context.longest_prompt(),
        context.name(),
        context.tokens
    )
}
