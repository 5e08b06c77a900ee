//! Prefill and decode on different replicas (xPyD): pools with roles, what goes between them, and when.
//!
//! A client sees one request: it arrives once, has one first token and ends once. Inside it is a *flight* from a prefill
//! replica P to a decode replica D, and its KV crosses their [links](super::links). Three flows are modelled (rules
//! in `docs/engine-rules.md`):
//!
//! * vLLM with NIXL (`nixl`): P answers with one token, the proxy sends the request on to D, D reads what it lacks and
//!   computes the last prompt token again (PD-7 to PD-17).
//! * vLLM with P2P NCCL (`p2p_nccl`): P pushes during the step that completes the prompt, which lasts as long as its
//!   sends do; D's batch waits for what has not come (PD-18 to PD-21).
//! * SGLang (`sglang`): both get the request at once, D reserves memory, P sends chunk by chunk, and D emits P's token
//!   without a forward (PD-22 to PD-33).
//!
//! Replicas compute as if alone and are visited as in a [fleet](super::fleet), so a decode replica's run of steps is cut
//! by its own events only. What happens between them (hops, transfers) is taken in order of time with their wake-ups: at
//! one instant steps end first, then errands, then loops pass (EV-6).
//!
//! Replicas fail and come back, and transfers fail (`loss.rs`); what each flow does then is told there.
//!
//! Left out: several transfers of one request at a time, and what a switch does.
//!
//! Laws: bytes sent are bytes received; what P held for a transfer is freed when it is over; a request waits, runs on P,
//! waits, and runs on D, and Little's law holds for each with sums of their own.

mod flight;
mod flow;
mod loss;
mod pool;
mod run;
mod spec;
mod tap;
mod telling;
mod vllm;

pub use spec::{Disaggregation, Flow, Lease, LoadFailure};

pub(crate) use run::Disaggregated;
